package txnhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
	"github.com/txmgr/txmgr/txn/txntest"
)

func TestBothServicesCommit(t *testing.T) {
	p := services(t, txnhttp.Options{}, well)
	a, err := p.order(t.Context(), time.Minute)
	is(t, err)
	if a.status != http.StatusCreated || a.body != "sold" || a.header.Get("Left") != "6" || a.outcome != "" {
		t.Errorf("%+v", a)
	}
	p.ends(t, txn.Committed)
	id := p.Transactions()[0].ID
	if got := strings.Join(p.stock.Calls(id), ", "); got != "exec, prepare, commit" {
		t.Errorf("the session of the handler did not follow the decision: %s", got)
	}
}

func TestWhatAHandlerDoesWrong(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(p *pair) http.HandlerFunc
		options txnhttp.Options
		want    func(t *testing.T, a answer)
		state   txn.State
	}{
		"answers an error": {
			handler: func(p *pair) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					is(t, p.sell(r.Context()))
					rw.Header().Set("Reason", "price")
					http.Error(rw, "the price has changed", http.StatusConflict)
				}
			},
			want: func(t *testing.T, a answer) {
				if a.status != http.StatusConflict || a.outcome != "rolled-back" || a.body != "the price has changed\n" || a.header.Get("Reason") != "price" {
					t.Errorf("%+v", a)
				}
			},
		},
		"answers an error before it has worked": {
			handler: func(*pair) http.HandlerFunc { return http.NotFound },
			want: func(t *testing.T, a answer) {
				if a.status != http.StatusNotFound || a.outcome != "rolled-back" {
					t.Errorf("%+v", a)
				}
			},
		},
		"answers too much": {
			options: txnhttp.Options{MaxResponse: 10},
			handler: func(p *pair) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					is(t, p.sell(r.Context()))
					_, err := io.WriteString(rw, "1234567890")
					is(t, err)
					if _, err = io.WriteString(rw, "1"); err == nil {
						t.Error("no error of what is too much")
					}
				}
			},
			want: func(t *testing.T, a answer) {
				a.says(t, http.StatusInternalServerError, "rolled-back", txn.CodeRolledBack, "more than 10 bytes", txn.IDPrefix)
			},
		},
		"panics": {
			handler: func(p *pair) http.HandlerFunc {
				return func(_ http.ResponseWriter, r *http.Request) {
					is(t, p.sell(r.Context()))
					panic("out of order")
				}
			},
			want: func(t *testing.T, a answer) {
				if a.status != 0 {
					t.Errorf("%+v", a)
				}
			},
		},
		"its vote is no": {
			handler: func(p *pair) http.HandlerFunc {
				p.stock.VoteNo("sold out")
				return well(p)
			},
			want: func(t *testing.T, a answer) {
				a.says(t, http.StatusConflict, "rolled-back", txn.CodeRolledBack, "sold out", txn.IDPrefix)
				if a.header.Get("Left") != "" {
					t.Error("the handler's headers went out")
				}
			},
		},
		"writes an invalid status": {
			handler: func(p *pair) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					is(t, p.sell(r.Context()))
					rw.WriteHeader(42)
				}
			},
			want: func(*testing.T, answer) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := services(t, c.options, c.handler)
			a, err := p.order(t.Context(), time.Minute)
			if err == nil {
				t.Error("no error")
			}
			is(t, err, txn.ErrRolledBack)
			c.want(t, a)
			p.ends(t, txn.RolledBack)
		})
	}
}

// TestCallerThatOverlooksAnError cannot commit: the handler's work is rolled back.
func TestCallerThatOverlooksAnError(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(*pair) http.HandlerFunc { return http.NotFound })
	is(t, txn.Run(t.Context(), p.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		is(t, p.bank.Exec(ctx, tx, func() { p.paid++ }))
		_, err := p.call(ctx)
		return err
	}), txn.ErrRolledBack)
	p.ends(t, txn.RolledBack)
}

// TestHandlerThatIsTooSlow: its context ends at the transaction's deadline.
func TestHandlerThatIsTooSlow(t *testing.T) {
	for name, heeds := range map[string]bool{"and heeds its context": true, "and does not": false} {
		t.Run(name, func(t *testing.T) {
			answers := make(chan answer, 1)
			p := services(t, txnhttp.Options{}, func(p *pair) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					is(t, p.sell(r.Context()))
					<-r.Context().Done()
					is(t, context.Cause(r.Context()), txn.ErrTimedOut)
					if heeds {
						http.Error(rw, "too slow", http.StatusGatewayTimeout)
					}
				}
			})
			b, err := p.Begin(t.Context(), txn.Options{Timeout: 300 * time.Millisecond})
			is(t, err)
			go func() {
				a, err := p.call(context.Background(), func(r *http.Request) { r.Header.Set(txn.HeaderID, b.ID.String()) })
				is(t, err)
				answers <- a
			}()
			switch a := <-answers; {
			case heeds && (a.status != http.StatusGatewayTimeout || a.outcome != "rolled-back"):
				t.Errorf("%+v", a)
			case !heeds:
				a.says(t, http.StatusConflict, "rolled-back", txn.CodeRolledBack, "timed out")
			}
			p.ends(t, txn.RolledBack)
		})
	}
}

// TestCallerThatDies after the votes: the resource waits for the decision, which is made at the
// deadline.
func TestCallerThatDies(t *testing.T) {
	p := services(t, txnhttp.Options{}, well)
	b, err := p.Begin(t.Context(), txn.Options{Timeout: 300 * time.Millisecond})
	is(t, err)
	ctx, die := context.WithCancel(t.Context())
	a, err := p.call(ctx, func(r *http.Request) { r.Header.Set(txn.HeaderID, b.ID.String()) })
	is(t, err)
	if a.status != http.StatusCreated || p.stock.State(b.ID) != txn.BranchPrepared {
		t.Errorf("%+v, and the branch is %v", a, p.stock.State(b.ID))
	}
	die()
	p.ends(t, txn.RolledBack)
}

// TestCallerThatGoesAway while the handler works: nothing is left prepared.
func TestCallerThatGoesAway(t *testing.T) {
	working, gone := make(chan struct{}), make(chan struct{})
	p := services(t, txnhttp.Options{}, func(p *pair) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			defer close(gone)
			_, err := io.Copy(io.Discard, r.Body) // net/http notices only after that that the client has disconnected
			is(t, err)
			is(t, p.sell(r.Context()))
			close(working)
			<-r.Context().Done()
		}
	})
	b, err := p.Begin(t.Context(), txn.Options{})
	is(t, err)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-working
		leave()
	}()
	if _, err := p.call(ctx, func(r *http.Request) { r.Header.Set(txn.HeaderID, b.ID.String()) }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-gone
	p.ends(t, txn.RolledBack)
}

// TestNestedRunJoins: the handler's own Run is the caller's transaction.
func TestNestedRunJoins(t *testing.T) {
	for name, fails := range map[string]bool{"and is well": false, "and fails": true} {
		t.Run(name, func(t *testing.T) {
			p := services(t, txnhttp.Options{}, func(p *pair) http.HandlerFunc {
				return func(_ http.ResponseWriter, r *http.Request) {
					_ = txn.Run(r.Context(), p.Manager, txn.Options{}, func(ctx context.Context, _ *txn.Tx) error {
						is(t, p.sell(ctx))
						if fails {
							return errors.New("sold out")
						}
						return nil
					}) // the handler ignores its error
				}
			})
			a, err := p.order(t.Context(), time.Minute)
			want := txn.Committed
			if fails {
				is(t, err, txn.ErrRolledBack)
				a.says(t, http.StatusConflict, "rolled-back", txn.CodeRolledBack, "sold out")
				want = txn.RolledBack
			} else {
				is(t, err)
			}
			p.ends(t, want)
			if n := len(p.Transactions()); n != 1 {
				t.Errorf("%d transactions", n)
			}
		})
	}
}

// TestServiceThatIsCalledTwice in one transaction: there is one branch, and it has
// voted.
func TestServiceThatIsCalledTwice(t *testing.T) {
	p := services(t, txnhttp.Options{}, well)
	is(t, txn.Run(t.Context(), p.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		is(t, p.bank.Exec(ctx, tx, func() { p.paid++ }))
		first, err := p.call(ctx)
		is(t, err)
		second, err := p.call(ctx)
		is(t, err)
		if first.status != http.StatusCreated || second.status < 400 || second.outcome != "rolled-back" {
			t.Errorf("%+v, then %+v", first, second)
		}
		return nil
	}), txn.ErrRolledBack)
	p.ends(t, txn.RolledBack)
}

// TestRequestsThatAreRefused do not reach the handler, or reach it untouched.
func TestRequestsThatAreRefused(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(*pair) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			if _, in := txn.FromContext(r.Context()); in {
				t.Error("in a transaction")
			}
			if _, ok := rw.(http.Flusher); !ok {
				t.Error("not the server's own ResponseWriter")
			}
			rw.WriteHeader(http.StatusTeapot)
		}
	})
	open, err := p.Begin(t.Context(), txn.Options{})
	is(t, err)
	committed, err := p.Begin(t.Context(), txn.Options{})
	is(t, err)
	_, err = p.Commit(t.Context(), committed.ID, txn.CommitRequest{})
	is(t, err)
	rolled, err := p.Begin(t.Context(), txn.Options{})
	is(t, err)
	_, err = p.Rollback(t.Context(), rolled.ID, "enough")
	is(t, err)
	named := func(names ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[txn.HeaderID] = names }
	}
	for name, c := range map[string]struct {
		change  func(*http.Request)
		status  int
		outcome string
		code    txn.Code
		word    string
	}{
		"no transaction":         {func(*http.Request) {}, http.StatusTeapot, "", "", ""},
		"the coordinator's call": {func(r *http.Request) { named(open.ID.String())(r); r.Header.Set("Txmgr-Phase", "prepare") }, http.StatusTeapot, "", "", ""},
		"no id":                  {named("tx_nonsense"), http.StatusBadRequest, "", txn.CodeUsage, "tx_nonsense"},
		"an empty one":           {named(""), http.StatusBadRequest, "", txn.CodeUsage, "transaction id"},
		"two":                    {named(open.ID.String(), open.ID.String()), http.StatusBadRequest, "", txn.CodeUsage, "2 headers"},
		"unknown":                {named(txn.NewID(time.UnixMilli(1), [9]byte{9}).String()), http.StatusConflict, "", txn.CodeNotFound, "unknown transaction"},
		"committed":              {named(committed.ID.String()), http.StatusConflict, "", txn.CodeConflict, committed.ID.String()},
		"rolled back":            {named(rolled.ID.String()), http.StatusConflict, "rolled-back", txn.CodeRolledBack, rolled.ID.String()},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := p.call(t.Context(), c.change)
			is(t, err)
			if c.code == "" {
				if a.status != c.status {
					t.Errorf("%+v", a)
				}
				return
			}
			a.says(t, c.status, c.outcome, c.code, c.word)
		})
	}
	if info, err := p.Get(t.Context(), open.ID); err != nil || info.State != txn.Active {
		t.Errorf("%v, %v", info.State, err)
	}
}

// TestCoordinatorThatIsAway: the handler is not run, and the request may be repeated.
func TestCoordinatorThatIsAway(t *testing.T) {
	p := services(t, txnhttp.Options{}, well)
	p.Fail("get", txntest.Unreachable)
	is(t, txn.Run(t.Context(), p.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		is(t, p.bank.Exec(ctx, tx, func() { p.paid++ }))
		a, err := p.call(ctx)
		is(t, err)
		a.says(t, http.StatusServiceUnavailable, "", txn.CodeUnavailable, tx.ID().String())
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.header)
		}
		a, err = p.call(ctx)
		is(t, err)
		if a.status != http.StatusCreated {
			t.Errorf("again: %+v", a)
		}
		return nil
	}))
	p.ends(t, txn.Committed)
}

// TestVotesThatGetLost: it is not known whether they arrived, so the answer claims nothing.
func TestVotesThatGetLost(t *testing.T) {
	p := services(t, txnhttp.Options{}, well)
	p.Fail("vote", txntest.ResponseLost)
	p.Fail("rollback", txntest.Unreachable)
	_, err := p.order(t.Context(), time.Minute)
	is(t, err, txn.ErrRolledBack) // since orders fails when stock does
	p.ends(t, txn.RolledBack)
}

func TestTrust(t *testing.T) {
	m := txntest.New(t)
	b, err := m.Begin(t.Context(), txn.Options{})
	is(t, err)
	for name, trust := range map[string]func(*http.Request) bool{"nobody": nil, "peers with certificates": txnhttp.TrustVerifiedPeers} {
		handler := txnhttp.New(m, trust, txnhttp.Options{}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the handler was run", name) }))
		rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(txn.HeaderID, b.ID.String())
		handler.ServeHTTP(rec, r)
		answer{rec.Code, rec.Header().Get(txnhttp.HeaderOutcome), rec.Body.String(), rec.Header()}.says(t, http.StatusForbidden, "", txn.CodeDenied)
	}
}

// TestAHandlerCannotStream, and gets an error that says so.
func TestAHandlerCannotStream(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(p *pair) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			is(t, p.sell(r.Context()))
			rw.WriteHeader(http.StatusEarlyHints)
			if _, ok := rw.(http.Flusher); ok {
				t.Error("it can be flushed")
			}
			is(t, http.NewResponseController(rw).Flush(), txnhttp.ErrResponseBuffered)
			_, _, err := http.NewResponseController(rw).Hijack()
			is(t, err, txnhttp.ErrResponseBuffered)
			rw.WriteHeader(http.StatusNoContent)
			rw.WriteHeader(http.StatusInternalServerError) // too late, as in net/http
		}
	})
	a, err := p.order(t.Context(), time.Minute)
	is(t, err)
	if a.status != http.StatusNoContent {
		t.Errorf("%+v", a)
	}
	p.ends(t, txn.Committed)
}

// TestWrappedTwice is as once: what is between the two works through the same resource.
func TestWrappedTwice(t *testing.T) {
	p := services(t, txnhttp.Options{}, func(p *pair) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			tx, _ := txn.FromContext(r.Context())
			is(t, p.stock.Exec(r.Context(), tx))
			p.mw.Handler(well(p)).ServeHTTP(rw, r)
		}
	})
	_, err := p.order(t.Context(), time.Minute)
	is(t, err)
	p.ends(t, txn.Committed)
}

// TestClose waits for resources that wait for a decision, or leaves their branches to the
// coordinator.
func TestClose(t *testing.T) {
	for name, patient := range map[string]bool{"patient": true, "impatient": false} {
		t.Run(name, func(t *testing.T) {
			p := services(t, txnhttp.Options{}, well)
			b, err := p.Begin(t.Context(), txn.Options{})
			is(t, err)
			name := func(r *http.Request) { r.Header.Set(txn.HeaderID, b.ID.String()) }
			_, err = p.call(t.Context(), name)
			is(t, err)

			ctx, cancel := context.WithCancel(t.Context())
			if !patient {
				cancel()
				is(t, p.mw.Close(ctx), context.Canceled)
			}
			closed := make(chan error, 1)
			go func() { closed <- p.mw.Close(ctx) }()
			p.refusesSoon(t)
			p.paid++ // as if the bank had been paid
			_, err = p.Commit(t.Context(), b.ID, txn.CommitRequest{ClientCompletes: true})
			is(t, err)
			if err := <-closed; patient {
				is(t, err)
			}
			cancel()
			p.ends(t, txn.Committed)
			want := "exec, prepare, commit"
			if !patient {
				want = "exec, prepare, coordinator: commit"
			}
			if got := strings.Join(p.stock.Calls(b.ID), ", "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// refusesSoon returns when Close has begun: requests in transactions are refused.
func (p *pair) refusesSoon(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for unknown := txn.NewID(time.UnixMilli(1), [9]byte{9}); ; {
		a, err := p.call(ctx, func(r *http.Request) { r.Header.Set(txn.HeaderID, unknown.String()) })
		switch {
		case err != nil:
			t.Fatal(err)
		case a.status == http.StatusServiceUnavailable:
			return
		}
		<-again.C
	}
}
