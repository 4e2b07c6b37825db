package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

type header map[string]string

func (h header) Get(k string) string { return h[k] }
func (h header) Set(k, v string)     { h[k] = v }

// works joins with a resource.
func (s *fakeManager) works(ctx context.Context, tx *txn.Tx) error {
	_, err := s.join(ctx, tx, "bank")
	return err
}

func TestARequestCarriesATransaction(t *testing.T) {
	h := header{}
	if id, ok := txn.Extract(h); ok {
		t.Errorf("got %v out of nothing", id)
	}
	s := &fakeManager{}
	tx, err := txn.Start(t.Context(), s, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	txn.Inject(h, tx)
	if id, ok := txn.Extract(h); !ok || id != tx.ID() {
		t.Errorf("got %v, %v; want %v", id, ok, tx.ID())
	}
	h.Set(txn.HeaderID, "tx_nonsense")
	if id, ok := txn.Extract(h); ok {
		t.Errorf("got %v out of nonsense", id)
	}
}

func TestWorkInATransactionOfAnother(t *testing.T) {
	active := txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Hour)}
	for name, c := range map[string]struct {
		stage  *fakeManager
		fails  error
		follow txn.State // of the transaction when Complete asks
		want   []error
		trace  string
	}{
		"committed": {
			stage: &fakeManager{}, follow: txn.Committing,
			trace: "enlist bank session-of-bank\nbank prepares\nvote b1=prepared own=true: \nwait\nbank commits\nbank releases\ndone b1=committed",
		},
		"rolled back by another": {
			stage: &fakeManager{}, follow: txn.RollingBack,
			trace: "enlist bank session-of-bank\nbank prepares\nvote b1=prepared own=true: \nwait\nbank rolls back\nbank releases\ndone b1=rolled-back",
		},
		"nobody decides while it follows": {
			stage: &fakeManager{}, follow: txn.Active,
			trace: "enlist bank session-of-bank\nbank prepares\nvote b1=prepared own=true: \nwait\nbank releases",
		},
		"votes no": {
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteNo}},
			want:  []error{txn.ErrRolledBack, txn.ErrVotedNo},
			trace: "enlist bank session-of-bank\nbank prepares\nbank releases\nvote b1=no own=false: bank: voted no\ndone b1=rolled-back",
		},
		"fails": {
			stage: &fakeManager{}, fails: errOut,
			want:  []error{txn.ErrRolledBack, errOut},
			trace: "enlist bank session-of-bank\nbank rolls back\nbank releases\nrollback: out of order\ndone b1=rolled-back",
		},
		"the votes come too late": {
			stage: &fakeManager{errs: map[string]error{"vote": &txn.Error{Err: txn.ErrRolledBack, Cause: txn.CauseTimeout}}, cause: txn.CauseTimeout},
			want:  []error{txn.ErrRolledBack, txn.ErrTimedOut},
			trace: "enlist bank session-of-bank\nbank prepares\nvote b1=prepared own=true: \nrollback: : rolled back (cause: timeout)\nbank rolls back\nbank releases\ndone b1=rolled-back",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.stage
			s.info = active
			tx, err := txn.RunIn(t.Context(), s, theID, func(ctx context.Context, tx *txn.Tx) error {
				if got, ok := txn.FromContext(ctx); !ok || got != tx {
					t.Error("the context does not carry the transaction")
				}
				return errors.Join(s.works(ctx, tx), c.fails)
			})
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("error %q is not %q", err, want)
				}
			}
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				s.info.State = c.follow
				if err := tx.Complete(t.Context()); (err == nil) != c.follow.Decided() {
					t.Errorf("follow: %v", err)
				}
			}
			if diff := cmp.Diff(strings.Split(c.trace, "\n"), strings.Split(s.told(), "\n")); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttachToWhatIsOver(t *testing.T) {
	for state, want := range map[txn.State]error{
		txn.Preparing: txn.ErrNotActive, txn.Committed: txn.ErrNotActive,
		txn.RollingBack: txn.ErrRolledBack, txn.RolledBack: txn.ErrTimedOut,
	} {
		s := &fakeManager{info: txn.Info{ID: theID, State: state}}
		if state == txn.RolledBack {
			s.info.Cause = txn.CauseTimeout
		}
		if _, err := txn.Attach(t.Context(), s, theID); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", state, err, want)
		}
	}
	if _, err := txn.Attach(t.Context(), &fakeManager{}, theID); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("unreachable: %v", err)
	}
}

// TestOnlyTheBeginnerCommits: the application that began the transaction commits it; attached
// ones only hand their votes in.
func TestOnlyTheBeginnerCommits(t *testing.T) {
	s := &fakeManager{info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(time.Hour)}}
	attached, err := txn.Attach(t.Context(), s, theID)
	if err != nil {
		t.Fatal(err)
	}
	if err := attached.Commit(t.Context()); !errors.Is(err, txn.ErrManaged) {
		t.Errorf("commit by a guest: %v", err)
	}
	own, err := txn.Start(t.Context(), s, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Prepare(t.Context()); !errors.Is(err, txn.ErrManaged) {
		t.Errorf("prepare by the beginner: %v", err)
	}
	if err := errors.Join(attached.Prepare(t.Context()), attached.Complete(t.Context()), own.Commit(t.Context())); err != nil {
		t.Error(err)
	}
	if err := attached.Prepare(t.Context()); !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("prepare again: %v", err)
	}
}

// TestGuestsTimeEndsWithTheTransaction: an attached application gets what is left of the
// timeout.
func TestGuestsTimeEndsWithTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{info: txn.Info{ID: theID, State: txn.Active, ExpiresIn: txn.Duration(3 * time.Second)}}
		came := time.Now()
		_, err := txn.RunIn(t.Context(), s, theID, func(ctx context.Context, _ *txn.Tx) error {
			<-ctx.Done()
			s.info.State = txn.RollingBack
			return context.Cause(ctx)
		})
		if !errors.Is(err, txn.ErrTimedOut) || time.Since(came) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(came))
		}
	})
}
