package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// drainTimeout bounds how long everything may take to end after the last fault: most of it is
// raft's pause before it tries again to reach a node that was down.
const drainTimeout = 90 * time.Second

// awaitIdle waits until no work is left.
func (m *money) awaitIdle() {
	b := m.cluster
	b.t.Helper()
	b.eventually(drainTimeout, "every transaction has ended", func(ctx context.Context) error {
		open, err := b.m.List(ctx, admin.Filter{States: []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}})
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d have not, the first is %v (%s), %v: %+v", len(open), open[0].ID, open[0].Name, open[0].State, open[0].Branches)
		}
		return err
	})
	b.eventually(drainTimeout, "nothing of ours is prepared", func(ctx context.Context) error {
		all, err := m.prepared(ctx)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d are: %q", len(all), all[:min(len(all), 3)])
		}
		return err
	})
	b.eventually(drainTimeout, "the nodes have the same", func(ctx context.Context) error {
		all := b.statuses(ctx)
		leader, err := leading(all)
		for n, s := range all {
			if err == nil && (s.Committed != leader.Committed || s.RolledBack != leader.RolledBack || s.Undecided+s.Completing+leader.Undecided+leader.Completing > 0) {
				err = fmt.Errorf("%s has %d committed, %d rolled back, %d open; the leader %d, %d, %d", n.Name,
					s.Committed, s.RolledBack, s.Undecided+s.Completing, leader.Committed, leader.RolledBack, leader.Undecided+leader.Completing)
			}
		}
		return err
	})
	b.must(m.untouched(b.t.Context()))
	inDoubt, err := b.m.Admin().InDoubts(b.t.Context())
	if err != nil || len(inDoubt) > 0 {
		b.t.Errorf("nobody did anything by hand, and there are doubts: %+v, %v", inDoubt, err)
	}
}

// entry is a line of a journal.
type entry struct {
	place   string
	account int
	delta   int64
}

// databaseState is the contents of the databases.
type databaseState struct {
	journal  map[string][]entry       // by transaction
	balances map[string]map[int]int64 // by place and account
}

func (m *money) readDatabases() databaseState {
	k := databaseState{map[string][]entry{}, map[string]map[int]int64{}}
	for place, db := range map[string]*sql.DB{inBank: m.bank, inSavings: m.savings} {
		m.cluster.must(k.read(m.cluster.t.Context(), place, db))
	}
	return k
}

func (k *databaseState) read(ctx context.Context, place string, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT tx, account, delta FROM journal UNION ALL SELECT '', id, balance FROM account")
	if err != nil {
		return err
	}
	defer rows.Close()
	k.balances[place] = map[int]int64{}
	for rows.Next() {
		var tx string
		e := entry{place: place}
		if err := rows.Scan(&tx, &e.account, &e.delta); err != nil {
			return err
		}
		if tx == "" {
			k.balances[place][e.account] = e.delta
		} else {
			k.journal[tx] = append(k.journal[tx], e)
		}
	}
	return rows.Err()
}

// checkConsistency compares the databases with each other, with the outcomes that the clients were
// told, and with the state of every node. It is called after the clients have stopped.
func (t *transferClients) checkConsistency() {
	b, k := t.m.cluster, t.m.readDatabases()
	b.t.Helper()
	for _, why := range k.checkSums() {
		b.t.Error(why)
	}
	announced := map[string]bool{}
	for _, tr := range t.all {
		announced[tr.id.String()] = true
		if why := k.checkTransfer(tr); why != "" {
			b.t.Errorf("%v (%s), of which its teller was told %q (%s): %s", tr.id, tr.kind, tr.outcome, tr.detail, why)
		}
	}
	for tx := range k.journal {
		if !announced[tx] {
			b.t.Errorf("%s is in the books, and no teller announced it", tx)
		}
	}
	t.checkAllNodes(k)
}

// checkSums describes differences in the sums of money.
func (k *databaseState) checkSums() (wrong []string) {
	want := map[string]map[int]int64{inBank: {}, inSavings: {}}
	var total int64
	for place, all := range k.balances {
		for id := range accounts {
			want[place][id] = openingBalance
		}
		for _, balance := range all {
			total += balance
		}
	}
	for tx, entries := range k.journal {
		var sum int64
		for _, e := range entries {
			want[e.place][e.account] += e.delta
			sum += e.delta
		}
		if sum != 0 {
			wrong = append(wrong, fmt.Sprintf("%s has moved %d in sum: %v", tx, sum, entries))
		}
	}
	if total != 2*accounts*openingBalance {
		wrong = append(wrong, fmt.Sprintf("there is %d in all, want %d", total, 2*accounts*openingBalance))
	}
	if diff := cmp.Diff(want, k.balances); diff != "" {
		wrong = append(wrong, "balances (-by journal +real):\n"+diff)
	}
	return wrong
}

// checkTransfer describes what is wrong in the databases about one transfer; empty if nothing is.
func (k *databaseState) checkTransfer(tr *transfer) string {
	there := k.journal[tr.id.String()]
	switch {
	case len(there) != 0 && len(there) != 2:
		return fmt.Sprintf("half of it is there: %v", there)
	case tr.outcome == outcomeOther || tr.outcome == "":
		return "nobody should be told that"
	case tr.outcome == outcomeOK && len(there) == 0:
		return "it is not there"
	case tr.outcome != outcomeOK && tr.outcome != outcomeInDoubt && len(there) > 0, tr.kind != kindPlain && len(there) > 0:
		return fmt.Sprintf("it is there: %v", there)
	}
	return ""
}

// checkAllNodes reads every transfer from every node: the state is the same everywhere, and that of
// the databases.
func (t *transferClients) checkAllNodes(k databaseState) {
	b := t.m.cluster
	work := make(chan *transfer)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for tr := range work {
				for _, n := range b.nodes {
					if why := t.checkNode(n, tr, len(k.journal[tr.id.String()]) > 0); why != "" {
						b.t.Errorf("%v (%s), of which its teller was told %q: %s says: %s", tr.id, tr.kind, tr.outcome, n.Name, why)
					}
				}
			}
		})
	}
	for _, tr := range t.all {
		work <- tr
	}
	close(work)
	asking.Wait()
}

func (t *transferClients) checkNode(n *node, tr *transfer, there bool) string {
	info, err := n.m.Get(txn.AllowStale(t.m.cluster.t.Context()), tr.id)
	switch {
	case errors.Is(err, txn.ErrNotFound) && !there && tr.outcome != outcomeOK:
		return "" // it never began
	case err != nil:
		return err.Error()
	case info.Heuristic != 0:
		return fmt.Sprintf("heuristic %v: %+v", info.Heuristic, info.Branches)
	case tr.outcome == outcomeOK && info.State != txn.Committed,
		tr.outcome == outcomeRolledBack && info.State != txn.RolledBack,
		there != (info.State == txn.Committed):
		return fmt.Sprintf("%v, in the books: %v", info.State, there)
	}
	return ""
}
