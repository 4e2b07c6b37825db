package ledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/participanttest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// twoLedgers is two ledgers under one coordinator; alice has 100 in each.
type twoLedgers struct {
	*participanttest.Coordinator
	left, right *Ledger
}

func newTwoLedgers(t *testing.T) *twoLedgers {
	t.Helper()
	one, onePath := newLedger(t)
	two, twoPath := newLedger(t)
	p := &twoLedgers{left: New("left", onePath), right: New("right", twoPath)}
	p.Coordinator = participanttest.NewCoordinator("test", map[string]participant.Participant{
		"left": openParticipant(t, onePath), "right": openParticipant(t, twoPath),
	})
	local(t, one, "set alice 100")
	local(t, two, "set alice 100")
	t.Cleanup(func() { p.CheckNothingPrepared(t) })
	return p
}

func (p *twoLedgers) move(ctx context.Context, tx *txn.Tx, amount int64) error {
	if err := p.left.Add(ctx, tx, "alice", -amount); err != nil {
		return err
	}
	return p.right.Add(ctx, tx, "alice", amount)
}

func (p *twoLedgers) want(t *testing.T, left, right int64) {
	t.Helper()
	for l, want := range map[*Ledger]int64{p.left: left, p.right: right} {
		if got, err := l.Total(t.Context()); got != want || err != nil {
			t.Errorf("%s has %d, %v; want %d", l.name, got, err, want)
		}
	}
}

func TestTwoLedgersEndTogether(t *testing.T) {
	p := newTwoLedgers(t)
	run := func(amount int64, result error) error {
		return txn.Run(t.Context(), p, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			return errors.Join(p.move(ctx, tx, amount), result)
		})
	}
	if err := run(30, nil); err != nil {
		t.Error(err)
	}
	p.want(t, 70, 130)
	if err := run(71, nil); !errors.Is(err, txn.ErrVotedNo) || !strings.Contains(err.Error(), "left: account alice would go below zero: 70-71") {
		t.Errorf("got %v", err)
	}
	boom := errors.New("boom")
	if err := run(1, boom); !errors.Is(err, boom) || !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	p.want(t, 70, 130)
	if left := p.Unreported(p.Last()); len(left) != 0 {
		t.Errorf("the application did not report %v", left)
	}
}

// TestApplicationThatHangsDoesNotHinderOthers: it blocks no other, and what it prepares after its
// deadline is refused.
func TestApplicationThatHangsDoesNotHinderOthers(t *testing.T) {
	p := newTwoLedgers(t)
	err := txn.Run(t.Context(), p, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		if err := p.move(ctx, tx, 30); err != nil {
			return err
		}
		local(t, p.left, "add alice 1")
		p.TimeOut(tx.ID())
		p.Recover(t, tx.ID())
		return nil
	})
	if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrTimedOut) || !strings.Contains(err.Error(), "has ended already: rolled back") {
		t.Errorf("got %v", err)
	}
	p.want(t, 101, 100)
}

func TestStatementsOfATransaction(t *testing.T) {
	p := newTwoLedgers(t)
	err := txn.Run(t.Context(), p, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		answer, err := p.left.Exec(ctx, tx, "move alice bob 40; get alice; get bob")
		if want := "alice 60\nbob 40\n"; answer != want || err != nil {
			t.Errorf("answered %q, %v; want %q", answer, err, want)
		}
		err = errors.Join(p.left.Set(ctx, tx, "carol", 5), p.left.Move(ctx, tx, "bob", "carol", 1))
		if got, errGet := p.left.Get(ctx, tx, "carol"); got != 6 || errGet != nil {
			t.Errorf("carol has %d, %v", got, errGet)
		}
		for name, bad := range map[string]error{
			"no account":    p.left.Add(ctx, tx, "", 1),
			"negative":      p.left.Set(ctx, tx, "a", -1),
			"to itself":     p.left.Move(ctx, tx, "a", "a", 1),
			"move backward": p.left.Move(ctx, tx, "a", "b", -1),
		} {
			if !errors.Is(bad, txn.ErrInvalid) {
				t.Errorf("%s: %v", name, bad)
			}
		}
		if _, bad := p.left.Exec(ctx, tx, "drop alice"); !errors.Is(bad, txn.ErrInvalid) {
			t.Errorf("got %v", bad)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.left.Balances(t.Context())
	if diff := cmp.Diff(map[string]int64{"alice": 60, "bob": 39, "carol": 6}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestManyTransfersAtOnce: some are refused because another has the account locked, and none is
// lost or made twice.
func TestManyTransfersAtOnce(t *testing.T) {
	p := newTwoLedgers(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	committed := int64(0)
	none := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return committed == 0
	}
	for range 8 {
		wg.Go(func() {
			// Two transfers that prepare at once may each win one ledger, and then both are rolled back.
			for i := 0; i < 10 || i < 10_000 && none(); i++ {
				err := txn.Run(t.Context(), p, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return p.move(ctx, tx, 1) })
				switch {
				case err == nil:
					mu.Lock()
					committed++
					mu.Unlock()
				case !errors.Is(err, txn.ErrVotedNo):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if committed == 0 {
		t.Error("none was committed")
	}
	p.want(t, 100-committed, 100+committed)
}

func TestPreparedBranchesAreListedWithTheirLocks(t *testing.T) {
	l, path := newLedger(t)
	s := newBranchTx(l.store, txn.ClusterPrefix("test")+"1")
	do(t, s, "add bob 1; add alice 1")
	if vote, err := s.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	all, err := l.Prepared(t.Context())
	if err != nil || len(all) != 1 || all[0].XID != s.xid || all[0].Since.IsZero() || !cmp.Equal(all[0].Accounts, []string{"alice", "bob"}) {
		t.Errorf("got %v, %v", all, err)
	}
	list, err := openParticipant(t, path).Prepared(t.Context(), "txm_")
	if err != nil || len(list) != 1 || list[0].Owner != "accounts alice, bob" || !list[0].Since.Equal(all[0].Since) {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestRegistrationIsChecked(t *testing.T) {
	for why, settings := range map[string]map[string]string{
		"unknown setting \"file\"": {"path": "/x", "file": "/x"},
		"want an absolute path":    {"path": "x.db"},
		"path \"\"":                {},
	} {
		_, err := Driver(t.Context(), admin.Participant{Name: "ledger", Kind: Kind, Settings: settings}, "test")
		if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %s", err, why)
		}
	}
	p, err := Driver(t.Context(), admin.Participant{Name: "ledger", Kind: Kind, Settings: map[string]string{"path": "/nowhere/x.db"}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(t.Context()); err == nil {
		t.Error("a file that cannot be made is fine")
	}
}

// An error of work names the ledger that it is from.
func TestErrorsOfWorkNameTheParticipant(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context, p *twoLedgers, tx *txn.Tx) error{
		"exec": func(ctx context.Context, p *twoLedgers, tx *txn.Tx) error {
			_, err := p.right.Exec(ctx, tx, "add alice -1000")
			return err
		},
		"add": func(ctx context.Context, p *twoLedgers, tx *txn.Tx) error {
			return p.right.Add(ctx, tx, "alice", -1000)
		},
	} {
		p := newTwoLedgers(t)
		err := txn.Run(t.Context(), p, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return work(ctx, p, tx) })
		if err == nil || strings.Count(err.Error(), "right: ") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
