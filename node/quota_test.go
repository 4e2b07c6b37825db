package node

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// addLedger registers a ledger with a quota.
func addLedger(t *testing.T, n *Node, name, quota string) error {
	t.Helper()
	p := admin.Participant{Name: name, Kind: ledger.Kind, Settings: map[string]string{"path": filepath.Join(t.TempDir(), name)}}
	if quota != "" {
		p.Settings[participants.QuotaSetting] = quota
	}
	return n.Admin().AddParticipant(t.Context(), p, "", "")
}

func ledgers(c *Config) {
	c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver}
}

func TestQuotaIsChecked(t *testing.T) {
	n := open(t, t.TempDir(), ledgers)
	for _, quota := range []string{"0", "-1", "many", "1000001", " 5"} {
		wantErr(t, quota, addLedger(t, n, "bank", quota), txn.ErrInvalid, "quota")
	}
	if _, ok := n.registration("bank"); ok {
		t.Error("registered all the same")
	}
	if err := addLedger(t, n, "bank", "5"); err != nil {
		t.Error(err)
	}
}

func TestQuotaHoldsBranchesBack(t *testing.T) {
	dir := t.TempDir()
	n, err := tryOpen(t, dir, ledgers)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, quota := range map[string]string{"bank": "2", "stock": ""} {
		if err := addLedger(t, n, name, quota); err != nil {
			t.Fatal(err)
		}
	}
	beginThere := func() (txn.BeginResult, error) {
		return n.Begin(ctx, txn.Options{Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "stock"}, {Participant: "bank"}}})
	}
	first, err := beginThere()
	if err != nil {
		t.Fatal(err)
	}
	second, err := n.Begin(ctx, txn.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := n.Enlist(ctx, second.ID, txn.Enlistment{Participant: "bank"}); err != nil {
			t.Fatal(err)
		}
	}
	third, err := n.Begin(ctx, txn.Options{Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "stock"}}})
	if err != nil {
		t.Fatalf("elsewhere: %v", err)
	}
	full := func(when string) {
		t.Helper()
		_, err := beginThere()
		wantErr(t, when+": begin", err, txn.ErrUnavailable, `participant "bank" has 2 unfinished branches, and its quota is 2`)
		other, err := n.Begin(ctx, txn.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Enlist(ctx, other.ID, txn.Enlistment{Participant: "bank"})
		wantErr(t, when+": enlist", err, txn.ErrUnavailable, "quota is 2")
		if _, err := n.Enlist(ctx, second.ID, txn.Enlistment{Participant: "bank"}); err != nil {
			t.Errorf("%s: a repeat: %v", when, err)
		}
	}
	full("at once")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open(t, dir, ledgers)
	full("after a restart")
	if err := n.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Rollback(ctx, first.ID, ""); err != nil {
		t.Fatal(err)
	}
	finished(t, n, first.ID)
	if _, err := n.Enlist(ctx, third.ID, txn.Enlistment{Participant: "bank"}); err != nil {
		t.Errorf("when one has ended: %v", err)
	}
	full("when another has come")
	ds, err := n.Admin().Doctor(ctx, "bank")
	if err != nil || found(ds, participants.QuotaSetting).Level != "warning" || found(ds, participants.QuotaSetting).Message != "2 of 2 branches are unfinished: further ones will be refused" {
		t.Errorf("%+v, %v", ds, err)
	}
}

// TestQuotaCountsOnce: what has arrived in the log while its caller has no answer yet
// takes one place, whether it is still unfinished or not.
func TestQuotaCountsOnce(t *testing.T) {
	n := open(t, t.TempDir(), ledgers)
	if err := addLedger(t, n, "bank", "2"); err != nil {
		t.Fatal(err)
	}
	o := txn.Options{ID: random.TransactionID(), Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "bank"}}}
	over, err := n.admission.quotas.ReserveBegin(o)
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, used int) {
		t.Helper()
		if got, limit, ok := n.admission.quotas.Usage("bank"); got != used || limit != 2 || !ok {
			t.Errorf("%s: %d of %d, %v; want %d", when, got, limit, ok, used)
		}
	}
	want("on its way", 1)
	if _, err := n.Begin(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want("arrived", 1)
	second := beginAt(t, n, time.Hour, "bank")
	want("beside another", 2)
	for _, id := range []txn.ID{o.ID, second.ID} {
		if _, err := n.Rollback(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		finished(t, n, id)
	}
	want("finished", 0)
	over()
	want("answered", 0)
}

// TestQuotaIsNeverExceeded: by many callers at once, some of which give up.
func TestQuotaIsNeverExceeded(t *testing.T) {
	n := open(t, t.TempDir(), ledgers)
	if err := addLedger(t, n, "bank", "7"); err != nil {
		t.Fatal(err)
	}
	var begun, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				if (w+i)%3 == 0 {
					go cancel() // in the middle of it, sometimes
				}
				b, err := n.Begin(ctx, txn.Options{Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "bank"}}})
				cancel()
				if errors.Is(err, txn.ErrInDoubt) || errors.Is(err, context.Canceled) {
					var e *txn.Error
					if errors.As(err, &e) {
						b.ID = e.ID
					}
				} else if err != nil {
					refused.Add(1)
					continue
				}
				begun.Add(1)
				if _, err := n.Rollback(context.Background(), b.ID, ""); err != nil && !errors.Is(err, txn.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	watched := make(chan int)
	go func() {
		most := 0
		for {
			select {
			case <-stop:
				watched <- most
				return
			default:
			}
			list, err := n.List(context.Background(), admin.Filter{Participant: "bank"})
			if err != nil {
				t.Error(err)
			}
			open := 0
			for _, i := range list {
				if !i.Branches[0].State.Finished() {
					open++
				}
			}
			most = max(most, open)
		}
	}()
	wg.Wait()
	close(stop)
	if most := <-watched; most > 7 || most == 0 {
		t.Errorf("%d branches were open at once", most)
	}
	if begun.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d begun, %d refused: the quota was not tried", begun.Load(), refused.Load())
	}
	// Those that were given up are found to be nothing, or still there.
	waittest.Until(t, "room", func() bool {
		list, err := n.List(context.Background(), admin.Filter{States: []txn.State{txn.Active}})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if _, err := n.Rollback(context.Background(), i.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
		used, _, _ := n.admission.quotas.Usage("bank")
		return used == 0
	})
}

func TestWhoPreparesIsFoundOut(t *testing.T) {
	n := open(t, t.TempDir(), func(c *Config) {
		c.Drivers = map[string]participant.Driver{
			"desk": func(context.Context, admin.Participant, string) (participant.Participant, error) {
				return newFakeParticipant(), nil
			},
			"web": func(_ context.Context, p admin.Participant, _ string) (participant.Participant, error) {
				if _, ok := p.Settings[participants.QuotaSetting]; ok {
					return nil, errors.New("what is a quota?")
				}
				return yesAfter(0), nil
			},
		}
	})
	ctx := t.Context()
	for kind, prepares := range map[string]bool{"desk": false, "web": true} {
		if err := n.Admin().AddParticipant(ctx, admin.Participant{Name: kind, Kind: kind, Settings: map[string]string{participants.QuotaSetting: "9"}}, "", ""); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if p, ok := n.registration(kind); !ok || p.CoordinatorPrepares != prepares {
			t.Errorf("%+v", p)
		}
	}
	err := n.Admin().AddParticipant(ctx, admin.Participant{Name: "other", Kind: "desk", CoordinatorPrepares: true}, "", "")
	wantErr(t, "a desk that the coordinator shall prepare", err, txn.ErrInvalid, "cannot ask kind")
}

// TestQuotaKeepsNoPlaceOfARefusedCall: a call that is refused before it is proposed gives back what was reserved for it: one
// with a zero id, and one that finds the lead lost between its reservation and its proposal.
func TestQuotaKeepsNoPlaceOfARefusedCall(t *testing.T) {
	n := open(t, t.TempDir(), ledgers)
	if err := addLedger(t, n, "bank", "1"); err != nil {
		t.Fatal(err)
	}
	at := txn.Enlistment{Participant: "bank"}
	b := begin(t, n, time.Hour)
	lost := func(id txn.ID, c machine.Command, reserve func() (func(), error)) error {
		_, err := n.proposeTxInTerm(t.Context(), 0, "test", id, c, func() (release func(), err error) {
			release, err = reserve()
			n.terms.present.Load().leading.Store(false)
			n.proposals.SetTerm(0)
			return release, err
		})
		n.proposals.SetTerm(n.terms.latest.Load())
		n.terms.present.Load().leading.Store(true)
		return err
	}
	for _, c := range []struct {
		name string
		call func() error
		want error
	}{
		{"enlist with a zero id", func() error { _, err := n.Enlist(t.Context(), txn.ID{}, at); return err }, txn.ErrInvalid},
		{"enlist, the lead lost", func() error {
			return lost(b.ID, machine.Enlist{ID: b.ID, Branch: machine.Branch(at)}, func() (func(), error) { return n.admission.quotas.ReserveEnlist(b.ID, at) })
		}, txn.ErrUnavailable},
		{"begin, the lead lost", func() error {
			o := txn.Options{ID: random.TransactionID(), Branches: []txn.Enlistment{at}}
			return lost(o.ID, machine.Begin{ID: o.ID, Branches: []machine.Branch{machine.Branch(at)}}, func() (func(), error) { return n.admission.quotas.ReserveBegin(o) })
		}, txn.ErrUnavailable},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
		if used, limit, _ := n.admission.quotas.Usage("bank"); used != 0 {
			t.Errorf("%s: %d of %d places are taken; want 0", c.name, used, limit)
		}
	}
	if _, err := n.Enlist(t.Context(), b.ID, at); err != nil {
		t.Errorf("a place is free: %v", err)
	}
}

// TestQuotaPlaceIsHeldByEveryRepetition: of two calls that bring the same branch the second keeps the place when the first
// is refused.
func TestQuotaPlaceIsHeldByEveryRepetition(t *testing.T) {
	n := open(t, t.TempDir(), ledgers)
	if err := addLedger(t, n, "bank", "1"); err != nil {
		t.Fatal(err)
	}
	at, id := txn.Enlistment{Participant: "bank"}, random.TransactionID()
	var over []func()
	for range 2 {
		o, err := n.admission.quotas.ReserveEnlist(id, at)
		if err != nil {
			t.Fatal(err)
		}
		over = append(over, o)
	}
	for i, want := range []int{1, 0} {
		if over[i] == nil {
			t.Errorf("call %d holds no place", i)
		} else {
			over[i]()
		}
		if used, _, _ := n.admission.quotas.Usage("bank"); used != want {
			t.Errorf("after call %d was refused %d places are taken; want %d", i, used, want)
		}
	}
}
