package raftguard

import (
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/raftfsm/logstore"
)

// The defect: raft founds a cluster with two writes, its term and the first entry, and founds none where
// there is a term: a node that crashed in between could never be part of one (docs/decisions/0022).

// repairInterruptedBootstrap undoes what a crash during a bootstrap leaves behind: raft writes
// the term 1 before the first entry, and bootstraps nothing where there is a term.
func repairInterruptedBootstrap(g *Env) error {
	last, err := g.Log.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	snaps, err := g.Snapshots.List()
	if err != nil || len(snaps) > 0 {
		return err
	}
	voted, err := loadUint64(g.Log, storage.LastVoteTermKey)
	if err != nil || voted > 0 {
		return err
	}
	if term, err := loadUint64(g.Log, storage.CurrentTermKey); err != nil || term != 1 {
		return err
	}
	return g.Log.SetUint64(storage.CurrentTermKey, 0)
}

// loadUint64 returns 0 for a missing key.
func loadUint64(s raft.StableStore, key []byte) (uint64, error) {
	v, err := s.GetUint64(key)
	if err != nil && err.Error() == logstore.ErrKeyNotFound.Error() { // as raft compares it
		return 0, nil
	}
	return v, err
}
