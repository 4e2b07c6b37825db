package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// forgetful executes the first call and loses its answer; it answers later calls with an
// error.
type forgetful struct {
	*lossy
	later error
}

func (f *forgetful) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	if f.seen.Load() > 0 {
		return txn.Outcome{}, &txn.Error{Op: "commit", ID: id, Err: f.later}
	}
	return f.lossy.Commit(ctx, id, c)
}

func (f *forgetful) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	if f.seen.Load() > 0 {
		return txn.Outcome{}, &txn.Error{Op: "vote", ID: id, Err: f.later}
	}
	return f.lossy.Vote(ctx, id, b)
}

func (f *forgetful) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	if f.seen.Load() > 0 {
		return txn.Outcome{}, &txn.Error{Op: "delegate", ID: id, Err: f.later}
	}
	return f.lossy.Delegate(ctx, id, b)
}

// TestForgottenBetweenTwoTries: the first try of a call that decides was executed and its
// answer was lost. If a later try finds no transaction, or is denied, the call is in doubt. A
// call that was tried once gets the answer unchanged.
func TestForgottenBetweenTwoTries(t *testing.T) {
	for _, later := range []error{txn.ErrNotFound, txn.ErrDenied} {
		for op, call := range map[string]func(context.Context, *client.Client, txn.ID) (txn.Outcome, error){
			"commit": func(ctx context.Context, c *client.Client, id txn.ID) (txn.Outcome, error) {
				return c.Commit(ctx, id, txn.CommitRequest{})
			},
			"vote": func(ctx context.Context, c *client.Client, id txn.ID) (txn.Outcome, error) {
				return c.Vote(ctx, id, txn.Votes{})
			},
			"delegate": func(ctx context.Context, c *client.Client, id txn.ID) (txn.Outcome, error) {
				return c.Delegate(ctx, id, 1)
			},
		} {
			eachTransport(t, func(t *testing.T, cfg client.Config) {
				ln := listen(t, "127.0.0.1:0")
				f := &forgetful{lossy: &lossy{Fake: servertest.New(), ln: ln}, later: later}
				t.Cleanup(serveOn(t, ln, f, server.Config{}))
				cfg.Address = "http://" + ln.Addr().String()
				c := open(t, cfg)
				b, err := c.Begin(t.Context(), txn.Options{})
				if err != nil {
					t.Fatal(err)
				}
				f.times.Store(1)
				_, err = call(t.Context(), c, b.ID)
				if txn.CodeOf(err) != txn.CodeInDoubt || errors.Is(err, later) || !strings.Contains(err.Error(), "an earlier try may have been carried out, and now the answer is: ") {
					t.Errorf("%s, whose first try was carried out, and then: %v: the answer is: %v", op, later, err)
				}
				if _, err := call(t.Context(), c, b.ID); !errors.Is(err, later) || errors.Is(err, txn.ErrInDoubt) {
					t.Errorf("%s, tried once: %v; want %v", op, err, later)
				}
			})
		}
	}
}

// horizon refuses ids whose mark is not the present one.
type horizon struct {
	*servertest.Fake
	tick  atomic.Uint64
	marks chan txn.Mark // received
}

func (h *horizon) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	h.marks <- o.Mark
	now := txn.Mark{Epoch: 7, Tick: h.tick.Load()}
	if o.Mark != now {
		return txn.BeginResult{}, &txn.Error{Op: "begin", ID: o.ID, Err: txn.ErrForgotten, Mark: now}
	}
	b, err := h.Fake.Begin(ctx, o)
	b.Mark = now
	return b, err
}

// TestMarksOfAClient: an id that the client makes gets the mark that it knows; if that is too
// old, the client makes another id, which the caller does not notice. An id of the caller
// never gets a mark, and its refusal is returned.
func TestMarksOfAClient(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		h := &horizon{Fake: servertest.New(), marks: make(chan txn.Mark, 100)}
		h.tick.Store(100)
		cfg.Address = serve(t, h)
		c := open(t, cfg)
		begin := func(want ...uint64) {
			t.Helper()
			if b, err := c.Begin(t.Context(), txn.Options{}); err != nil || b.Mark != (txn.Mark{Epoch: 7, Tick: h.tick.Load()}) {
				t.Fatalf("begin: %+v, %v", b, err)
			}
			for _, tick := range want {
				if got := <-h.marks; got.Tick != tick {
					t.Errorf("an id with mark %v; want tick %d", got, tick)
				}
			}
		}
		begin(0, 100)
		begin(100)
		h.tick.Store(150)
		begin(100, 150)
		for _, mark := range []txn.Mark{{}, {Epoch: 7, Tick: 100}} {
			_, err := c.Begin(t.Context(), txn.Options{ID: newID(1), Mark: mark})
			e := (*txn.Error)(nil)
			if !errors.Is(err, txn.ErrForgotten) || errors.Is(err, txn.ErrInDoubt) || txn.CodeOf(err) != txn.CodeInDoubt || !errors.As(err, &e) || e.Mark != (txn.Mark{Epoch: 7, Tick: 150}) {
				t.Errorf("the id of a caller, with mark %v: %v", mark, err)
			}
			if got := <-h.marks; got != mark || len(h.marks) != 0 {
				t.Errorf("the mark that arrives is %v, and %d more; want %v", got, len(h.marks), mark)
			}
		}
	})
}
