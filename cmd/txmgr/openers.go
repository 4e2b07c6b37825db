package main

import (
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/postgres"
)

// openers are the kinds of participants that this program knows.
func openers() map[string]participant.Opener {
	return map[string]participant.Opener{ledger.Kind: ledger.Opener, postgres.Kind: postgres.Opener}
}
