package txntest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// Database is a participant at which the application does the work of its branch, as at a
// database. It votes as the test scripts and otherwise works: it commits in one phase when its
// branch is the only one, and the application's connection is ended when the coordinator rolls
// back. Make one with [Manager.Database]; safe for concurrent use.
type Database struct {
	m      *Manager
	name   string
	faults *faults

	mu       sync.Mutex // guards all below; held while effects run
	noVotes  []string   // the reasons of the next votes, which are no
	branches map[txn.ID]*branch
}

// Database adds a participant whose branches the application prepares.
func (m *Manager) Database(name string) *Database {
	m.tb.Helper()
	r := &Database{m: m, name: name, faults: newFaults(m.ctx, "exec", "prepare", "commit", "rollback"), branches: map[txn.ID]*branch{}}
	m.add(name, r, false)
	return r
}

// VoteNo makes the next branch that is asked for its vote, or commits in one phase, roll back
// instead, for the given reason.
func (r *Database) VoteNo(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noVotes = append(r.noVotes, reason)
}

// Fail makes the next calls of a name fail, one fault for each: exec, prepare, commit,
// rollback, by the application or by the coordinator. A commit in one phase is a commit.
func (r *Database) Fail(call string, next ...Fault) {
	r.m.tb.Helper()
	if err := r.faults.add(call, next); err != nil {
		r.m.tb.Fatalf("txntest: %s: %v", r.name, err)
	}
}

// Exec works in the transaction's branch, which it opens when there is none yet. The effects
// take place when the branch commits, one at a time and in order; they must not call the
// Database. A branch without effects votes read-only.
func (r *Database) Exec(ctx context.Context, tx *txn.Tx, effects ...func()) error {
	b, err := txn.Join(ctx, tx, r.name, func(ctx context.Context, enlist txn.EnlistFunc) (*branch, error) {
		enlisted, err := enlist(ctx, "", nil)
		if err != nil {
			return nil, err
		}
		_, id, _, _ := txn.ParseXID(enlisted.XID)
		return r.open(id)
	})
	if err != nil {
		return err
	}
	lost := r.inject(ctx, b.id, "", "exec", func() {
		if b.state != txn.BranchEnlisted {
			err = &txn.Error{Op: "exec", ID: b.id, Err: txn.ErrNotActive, Detail: fmt.Sprintf("the branch at %s is %v", r.name, b.state)}
			return
		}
		b.effects = append(b.effects, effects...)
	})
	return errors.Join(lost, err)
}

// State returns the true state of a transaction's branch: working ([txn.BranchEnlisted]),
// prepared, committed or rolled back; zero when there is none. A branch that voted read-only
// has committed, unless it is rolled back.
func (r *Database) State(id txn.ID) txn.BranchState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.branches[id]; b != nil {
		return b.state
	}
	return 0
}

// Calls returns all calls for a transaction's branch, in their order. Those of the coordinator
// begin so: "coordinator: rollback". What went wrong with a call stands after it: "commit:
// unreachable, as the test wants it". At the deadline the application and the coordinator roll
// back at the same time, in any order.
func (r *Database) Calls(id txn.ID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.branches[id]; b != nil {
		return slices.Clone(b.calls)
	}
	return nil
}
