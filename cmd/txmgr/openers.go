package main

import (
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
)

// openers are the kinds of participants that this program knows.
func openers() map[string]participant.Opener {
	return map[string]participant.Opener{
		ledger.Kind: ledger.Opener, mariadb.Kind: mariadb.Opener, postgres.Kind: postgres.Opener, web.Kind: web.Opener,
	}
}

// kinds names them for people, the most usual ones first.
func kinds() []string {
	return []string{postgres.Kind, mariadb.Kind, web.Kind, ledger.Kind}
}
