package main

import (
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
)

// drivers are the drivers of this program, by kind.
func drivers() map[string]participant.Driver {
	return map[string]participant.Driver{
		ledger.Kind: ledger.Driver, mariadb.Kind: mariadb.Driver, postgres.Kind: postgres.Driver, web.Kind: web.Driver,
	}
}

// kinds lists the kinds for people, the most usual ones first.
func kinds() []string {
	return []string{postgres.Kind, mariadb.Kind, web.Kind, ledger.Kind}
}
