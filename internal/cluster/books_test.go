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
)

// settleWithin is how long after the last fault everything may take to end: most of it
// is raft's pause before it tries again to reach a node that was away.
const settleWithin = 90 * time.Second

// settle waits until nothing is left to be done.
func (m *money) settle() {
	b := m.b
	b.t.Helper()
	b.soon(settleWithin, "every transaction has ended", func(ctx context.Context) error {
		open, err := b.m.List(ctx, txn.Filter{States: []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}})
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d have not, the first is %v (%s), %v: %+v", len(open), open[0].ID, open[0].Name, open[0].State, open[0].Branches)
		}
		return err
	})
	b.soon(settleWithin, "nothing of ours is prepared", func(ctx context.Context) error {
		all, err := m.prepared(ctx)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%d are: %q", len(all), all[:min(len(all), 3)])
		}
		return err
	})
	b.soon(settleWithin, "the nodes have the same", func(ctx context.Context) error {
		all := b.statuses(ctx)
		leader, err := leading(all)
		for n, s := range all {
			if err == nil && (s.Committed != leader.Committed || s.RolledBack != leader.RolledBack || s.Open+s.Undone+leader.Open+leader.Undone > 0) {
				err = fmt.Errorf("%s has %d committed, %d rolled back, %d open; the leader %d, %d, %d", n.Name,
					s.Committed, s.RolledBack, s.Open+s.Undone, leader.Committed, leader.RolledBack, leader.Open+leader.Undone)
			}
		}
		return err
	})
	b.must(m.untouched(b.t.Context()))
	doubts, err := b.m.Doubts(b.t.Context())
	if err != nil || len(doubts) > 0 {
		b.t.Errorf("nobody did anything by hand, and there are doubts: %+v, %v", doubts, err)
	}
}

// entry is a line of a journal.
type entry struct {
	place   string
	account int
	delta   int64
}

// books are what the databases hold.
type books struct {
	journal  map[string][]entry       // by transaction
	balances map[string]map[int]int64 // by place and account
}

func (m *money) read() books {
	k := books{map[string][]entry{}, map[string]map[int]int64{}}
	for place, db := range map[string]*sql.DB{inBank: m.bank, inSavings: m.savings} {
		m.b.must(k.read(m.b.t.Context(), place, db))
	}
	return k
}

func (k *books) read(ctx context.Context, place string, db *sql.DB) error {
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

// audit holds the books against themselves, against what the tellers were told, and
// against what every node says. It is for when the tellers have gone home.
func (t *tellers) audit() {
	b, k := t.m.b, t.m.read()
	b.t.Helper()
	for _, why := range k.sums() {
		b.t.Error(why)
	}
	announced := map[string]bool{}
	for _, tr := range t.all {
		announced[tr.id.String()] = true
		if why := k.judge(tr); why != "" {
			b.t.Errorf("%v (%s), of which its teller was told %q (%s): %s", tr.id, tr.kind, tr.outcome, tr.detail, why)
		}
	}
	for tx := range k.journal {
		if !announced[tx] {
			b.t.Errorf("%s is in the books, and no teller announced it", tx)
		}
	}
	t.everywhere(k)
}

// sums says whether money was made or lost.
func (k *books) sums() (wrong []string) {
	want := map[string]map[int]int64{inBank: {}, inSavings: {}}
	var total int64
	for place, all := range k.balances {
		for id := range accounts {
			want[place][id] = opening
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
	if total != 2*accounts*opening {
		wrong = append(wrong, fmt.Sprintf("there is %d in all, want %d", total, 2*accounts*opening))
	}
	if diff := cmp.Diff(want, k.balances); diff != "" {
		wrong = append(wrong, "balances (-by journal +real):\n"+diff)
	}
	return wrong
}

// judge says what is wrong with the books about one transfer; empty when nothing is.
func (k *books) judge(tr *transfer) string {
	there := k.journal[tr.id.String()]
	switch {
	case len(there) != 0 && len(there) != 2:
		return fmt.Sprintf("half of it is there: %v", there)
	case tr.outcome == saidOther || tr.outcome == "":
		return "nobody should be told that"
	case tr.outcome == saidOK && len(there) == 0:
		return "it is not there"
	case tr.outcome != saidOK && tr.outcome != saidInDoubt && len(there) > 0, tr.kind != kindPlain && len(there) > 0:
		return fmt.Sprintf("it is there: %v", there)
	}
	return ""
}

// everywhere asks every node about every transfer: the same everywhere, and what the
// books say.
func (t *tellers) everywhere(k books) {
	b := t.m.b
	work := make(chan *transfer)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for tr := range work {
				for _, n := range b.nodes {
					if why := t.ask(n, tr, len(k.journal[tr.id.String()]) > 0); why != "" {
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

func (t *tellers) ask(n *node, tr *transfer, there bool) string {
	info, err := n.m.Get(txn.AllowStale(t.m.b.t.Context()), tr.id)
	switch {
	case errors.Is(err, txn.ErrNotFound) && !there && tr.outcome != saidOK:
		return "" // it never came to be
	case err != nil:
		return err.Error()
	case info.Hazard != 0:
		return fmt.Sprintf("hazard %v: %+v", info.Hazard, info.Branches)
	case tr.outcome == saidOK && info.State != txn.Committed,
		tr.outcome == saidRolledBack && info.State != txn.RolledBack,
		there != (info.State == txn.Committed):
		return fmt.Sprintf("%v, in the books: %v", info.State, there)
	}
	return ""
}
