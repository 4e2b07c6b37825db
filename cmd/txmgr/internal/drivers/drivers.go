// Package drivers names the drivers that this program has: one for each kind of participant.
package drivers

import (
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
)

// All are the drivers of this program, by kind.
func All() map[string]participant.Driver {
	return map[string]participant.Driver{
		ledger.Kind: ledger.Driver, mariadb.Kind: mariadb.Driver, postgres.Kind: postgres.Driver, web.Kind: web.Driver,
	}
}

// Kinds lists the kinds for people, the most usual ones first.
func Kinds() []string {
	return []string{postgres.Kind, mariadb.Kind, web.Kind, ledger.Kind}
}
