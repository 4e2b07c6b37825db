package bank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// drainTimeout bounds how long everything may take to end after the faults.
const drainTimeout = 60 * time.Second

// eventually waits until something holds; ctx bounds the wait.
func (b *testEnv) eventually(ctx context.Context, what string, check func() error) {
	start := time.Now()
	if err := rig.Retry(ctx, check); err != nil {
		b.t.Errorf("after the storm: %s: %v", what, err)
	}
	b.events.Note("after %v: %s", time.Since(start).Round(time.Millisecond), what)
}

// awaitIdle waits until no work is left, and checks that.
func (b *testEnv) awaitIdle() {
	ctx, cancel := context.WithTimeout(b.t.Context(), drainTimeout)
	defer cancel()
	if err := rig.Retry(ctx, func() error { return errors.Join(b.bank.PingContext(ctx), b.savings.PingContext(ctx)) }); err != nil {
		b.t.Fatalf("a database does not answer any more; did it end by itself? %v", err)
	}
	b.eventually(ctx, "every transaction has ended", func() error {
		open, err := b.m.List(ctx, admin.Filter{States: []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}})
		if err == nil && len(open) > 0 {
			err = fmt.Errorf("%d have not, the first is %v, %v: %+v", len(open), open[0].ID, open[0].State, open[0].Branches)
		}
		return err
	})
	b.eventually(ctx, "nothing is prepared but what others prepared", func() error {
		now, err := b.prepared()
		if diff := cmp.Diff(b.foreign, now); err == nil && diff != "" {
			err = fmt.Errorf("-before +now:\n%s", diff)
		}
		return err
	})
	b.eventually(ctx, "nothing is locked or open", b.nothingOpen)
	b.eventually(ctx, "the sweep agrees", func() error { return b.scanned(ctx) })
}

// nothingOpen looks for open transactions and for lock waiters. MariaDB answers from a copy, which
// it renews only if it was not read for a tenth of a second: a caller that polls more often always
// reads the same copy.
func (b *testEnv) nothingOpen() error {
	rig.Sleep(b.t.Context(), 200*time.Millisecond)
	foreign := int64(0)
	for _, name := range b.foreign {
		if len(name) > len(inSavings) && name[:len(inSavings)] == inSavings {
			foreign++
		}
	}
	for _, c := range []struct {
		what  string
		query string
		want  int64
		bank  bool
	}{
		{"locks waited for in PostgreSQL", "SELECT count(*) FROM pg_locks WHERE NOT granted", 0, true},
		{"open transactions in PostgreSQL", "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'", 0, true},
		{"locks waited for in MariaDB", "SELECT count(*) FROM information_schema.INNODB_LOCK_WAITS", 0, false},
		{"transactions without a connection in MariaDB", "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = 0", foreign, false},
		{"transactions of connections in MariaDB", "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id NOT IN (0, CONNECTION_ID())", 0, false},
	} {
		db := b.savings
		if c.bank {
			db = b.bank
		}
		n, err := b.number(db, c.query)
		if err != nil {
			return err
		}
		if n != c.want {
			return fmt.Errorf("%s: %d, want %d", c.what, n, c.want)
		}
	}
	return nil
}

// scanned makes the coordinator scan for orphans, as an operator would.
func (b *testEnv) scanned(ctx context.Context) error {
	findings, err := b.m.Admin().Scan(ctx, "", false)
	if err != nil {
		return err
	}
	foreign := 0
	for _, f := range findings {
		if f.Class != "foreign" || f.Error != "" {
			return fmt.Errorf("found %+v", f)
		}
		foreign++
	}
	// A service lists only its own cluster's branches.
	if want := len(b.foreign) - 1; foreign != want {
		return fmt.Errorf("%d foreign branches found, want %d", foreign, want)
	}
	return nil
}

// checkHeuristics compares the transactions in doubt with the expected heuristic outcomes, explains
// each, and resolves or forgets it.
func (b *testEnv) checkHeuristics() {
	ctx, cancel := context.WithTimeout(b.t.Context(), drainTimeout)
	defer cancel()
	want := map[txn.ID]string{}
	cases := map[txn.ID]int{}
	for n, p := range b.heuristicCases.all {
		if p.want != 0 {
			want[p.id], cases[p.id] = p.want.String(), n
		}
	}
	// A list has the oldest [admin.MaxInDoubt]: the next ones show when those are forgotten.
	got := map[txn.ID]string{}
	for more := true; more; {
		inDoubt, err := b.m.Admin().InDoubts(ctx)
		if err != nil {
			b.t.Errorf("in doubt: %v", err)
			return
		}
		more = false
		for _, d := range inDoubt {
			if _, seen := got[d.ID]; seen {
				continue
			}
			more = true
			if b.heuristicCases.lost[d.ID] && d.Heuristic == txn.HeuristicHazard {
				if _, err := b.m.Admin().Forget(ctx, d.ID, "the bank test", "it has no marker row"); err != nil {
					b.t.Errorf("%v: %v", d.ID, err)
					return
				}
				continue
			}
			got[d.ID] = d.Heuristic.String()
			if want[d.ID] != d.Heuristic.String() {
				b.explain(ctx, b.m, d.ID)
				continue
			}
			n := cases[d.ID]
			p := b.heuristicCases.all[n]
			if err := b.resolveHeuristic(ctx, p, n%2 == 0); err != nil {
				b.t.Errorf("%s, %v: %v", p.kind, p.id, err)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("heuristic outcomes (-planted +found):\n%s", diff)
	}
	if left, err := b.m.Admin().InDoubts(ctx); err != nil || !b.t.Failed() && len(left) > 0 {
		b.t.Errorf("after all were forgotten or resolved %d are left in doubt: %v", len(left), err)
	}
}

// resolveHeuristic explains a heuristic outcome, and resolves or forgets it as an operator does.
func (b *testEnv) resolveHeuristic(ctx context.Context, p heuristicCase, forget bool) error {
	e, err := b.m.Admin().Explain(ctx, p.id)
	if err != nil {
		return err
	}
	allowed := map[string]bool{}
	for _, c := range e.Actions {
		allowed[c.Name] = c.Allowed
	}
	unknown := p.want == txn.HeuristicHazard
	// PostgreSQL may be able to prove later what it could not prove during its recovery.
	proved := p.typed && allowed["commit"] && !allowed["rollback"]
	if !allowed["forget"] || allowed["commit"] != unknown || allowed["rollback"] != unknown && !proved || len(e.Summary) == 0 {
		return fmt.Errorf("the choices are %+v, the story is %q", e.Actions, e.Summary)
	}
	proof := map[txn.Heuristic]string{txn.HeuristicCommit: "committed", txn.HeuristicMixed: "committed", txn.HeuristicRollback: "rolled-back", txn.HeuristicHazard: "unknown"}[p.want]
	at := slices.IndexFunc(e.Branches, func(q admin.BranchProbe) bool { return q.Participant == p.place })
	// PostgreSQL can report on a branch that never voted until its next crash.
	if at < 0 || e.Branches[at].Outcome != proof && !(proved && e.Branches[at].Outcome == "committed") && (!p.typed || p.place != inBank || e.Branches[at].Outcome != "unknown") {
		return fmt.Errorf("the participant says %+v, want %s", e.Branches, proof)
	}
	audit := "forget"
	if unknown && !forget && !p.typed { // a typed COMMIT stays a heuristic outcome when it is resolved as one
		audit = "resolve"
		_, err = b.m.Admin().Resolve(ctx, p.id, admin.Resolution{Commit: true, Reason: "planted", By: "the bank test"})
	} else {
		_, err = b.m.Admin().Forget(ctx, p.id, "the bank test", "planted")
	}
	if err != nil {
		return err
	}
	info, err := b.m.Get(ctx, p.id)
	if err != nil || info.Heuristic != 0 {
		return fmt.Errorf("after %s: heuristic %v, %w", audit, info.Heuristic, err)
	}
	records, err := b.m.Admin().Audit(ctx, admin.AuditFilter{ID: p.id})
	if err != nil || !slices.ContainsFunc(records, func(r admin.AuditRecord) bool { return r.Action == audit && r.By == "the bank test" }) {
		return fmt.Errorf("the audit has %+v, %w", records, err)
	}
	return nil
}

// explain prints what the coordinator knows of a transaction.
func (b *testEnv) explain(ctx context.Context, m *client.Client, id txn.ID) {
	e, err := m.Admin().Explain(ctx, id)
	if err != nil {
		b.t.Logf("%v cannot be explained: %v", id, err)
		return
	}
	b.t.Logf("%v, %v, heuristic %v:", id, e.Transaction.State, e.Transaction.Heuristic)
	for _, line := range e.Summary {
		b.t.Logf("  %s", line)
	}
	for i, q := range e.Branches {
		b.t.Logf("  %s at %s: %v, prepared %v, ending %q, %s %s", q.Branch, q.Participant, e.Transaction.Branches[i].State, q.Prepared, q.Outcome, q.Detail, q.Error)
		for _, a := range q.Attempts {
			b.t.Logf("    %s %s: %s", a.At.Format(time.StampMilli), a.Call, a.Result)
		}
	}
}
