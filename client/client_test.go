package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// callEverything makes every call once or more and records the results. f is the fake behind
// c.
func callEverything(ctx context.Context, c server.Coordinator, f *servertest.Fake) []any {
	var notes []any
	note := func(vs ...any) {
		for _, v := range vs {
			if err, ok := v.(error); ok {
				e := (*txn.Error)(nil)
				if !errors.As(err, &e) {
					notes = append(notes, "not a txn.Error: "+err.Error())
					continue
				}
				var is []string
				for _, s := range []error{
					txn.ErrInvalid, txn.ErrNotFound, txn.ErrConflict, txn.ErrNotActive, txn.ErrRolledBack, txn.ErrTimedOut,
					txn.ErrVotedNo, txn.ErrSessionExpired, txn.ErrInDoubt, txn.ErrHeuristic, txn.ErrUnavailable, txn.ErrWaitTimeout,
				} {
					if errors.Is(err, s) {
						is = append(is, s.Error())
					}
				}
				notes = append(notes, []any{e.Op, e.ID, e.State, e.Cause, is})
				continue
			}
			notes = append(notes, v)
		}
	}
	a, b := newID(1), newID(2)
	options := txn.Options{ID: a, Name: "order", Timeout: time.Minute, Labels: map[string]string{"shop": "7"}, Branches: []txn.Enlistment{{Participant: "bank", Payload: []byte{1}, SessionRef: "s"}}}
	note(c.Begin(ctx, options))
	note(c.Begin(ctx, options)) // repeated
	note(c.Begin(ctx, txn.Options{ID: a, Name: "another"}))
	note(c.Begin(ctx, txn.Options{ID: b}))
	note(c.Enlist(ctx, a, txn.Enlistment{Participant: "stock"}))
	note(c.Enlist(ctx, a, txn.Enlistment{Participant: "unknown"}))
	note(c.Enlist(ctx, a, txn.Enlistment{Participant: "BAD NAME"}))
	note(c.Extend(ctx, a, 2*time.Minute))
	note(c.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{}))
	note(c.Admin().Pools(ctx, ""))
	note(c.Admin().Pools(ctx, "bank"))
	note(c.Admin().Pools(ctx, "unknown"))
	note(c.Commit(ctx, a, txn.CommitRequest{}))
	note(c.Commit(ctx, a, txn.CommitRequest{ClientCompletes: true, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VoteReadOnly}}}))
	note(c.Wait(ctx, a, txn.UntilDecided))
	note(c.Admin().Scan(ctx, "bank", true))
	note(c.Rollback(ctx, a, "too late"))
	note(c.ReportCompletion(ctx, a, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}))
	note(c.ReportCompletion(ctx, a, txn.CompletionReport{Branch: 1, State: txn.BranchRolledBack}))
	note(c.ReportCompletion(ctx, a, txn.CompletionReport{Branch: 2, State: txn.BranchCommitted}))
	note(c.Wait(ctx, a, txn.UntilFinished))
	note(c.Get(ctx, a))
	note(c.Get(ctx, newID(99)))
	note(c.Rollback(ctx, b, "changed my mind"))
	note(c.Rollback(ctx, b, "again"))
	note(c.Commit(ctx, b, txn.CommitRequest{}))
	note(c.Enlist(ctx, b, txn.Enlistment{Participant: "bank"}))
	note(c.List(ctx, admin.Filter{States: []txn.State{txn.RolledBack}, Limit: 5, OlderThan: time.Nanosecond}))
	note(c.List(ctx, admin.Filter{Prefix: "tx_zzz"}))
	s := txn.SessionOptions{ID: txn.SessionID(newID(43)), Name: "app", TTL: 3 * time.Second}
	note(c.OpenSession(ctx, s))
	note(c.OpenSession(ctx, s)) // repeated
	note(c.OpenSession(ctx, txn.SessionOptions{ID: s.ID, Name: "another"}))
	note(c.OpenSession(ctx, txn.SessionOptions{TTL: time.Millisecond}))
	note(c.KeepAlive(ctx, s.ID))
	note(c.KeepAlive(ctx, txn.SessionID(newID(99))))
	note(c.Begin(ctx, txn.Options{ID: newID(44), Session: s.ID}))
	note(c.Begin(ctx, txn.Options{ID: newID(45), Session: txn.SessionID(newID(99))}))
	note(c.Get(ctx, newID(44)))
	f.ExpireSession(s.ID)
	note(c.Get(ctx, newID(44)))
	note(c.Commit(ctx, newID(44), txn.CommitRequest{}))
	note(c.KeepAlive(ctx, s.ID))
	note(c.CloseSession(ctx, s.ID))
	s.ID = txn.SessionID(newID(46))
	note(c.OpenSession(ctx, s))
	note(c.CloseSession(ctx, s.ID))
	note(c.CloseSession(ctx, s.ID)) // repeated
	note(c.Admin().Sessions(ctx, admin.SessionFilter{}))
	note(c.Admin().Sessions(ctx, admin.SessionFilter{Ended: true, Limit: 5}))
	note(c.Admin().AddParticipant(ctx, admin.Participant{Name: "web", Kind: "web", Settings: map[string]string{"url": "x"}, CoordinatorPrepares: true}, "", ""))
	note(c.Admin().AddParticipant(ctx, admin.Participant{Name: "bank", Kind: "ledger"}, "", ""))
	note(c.Admin().TestParticipant(ctx, "web"))
	note(c.Admin().TestParticipant(ctx, "unknown"))
	note(c.Admin().RemoveParticipant(ctx, "stock", "", ""))
	note(c.Admin().RemoveParticipant(ctx, "stock", "", ""))
	note(c.Admin().Participants(ctx))

	v, d, l := newID(3), newID(4), newID(5)
	bank := []txn.Enlistment{{Participant: "bank"}}
	prepared := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}
	note(c.Begin(ctx, txn.Options{ID: v, Branches: bank}))
	note(c.Vote(ctx, v, txn.Votes{Votes: prepared, ClientCompletes: true}))
	note(c.Vote(ctx, v, txn.Votes{Votes: prepared}))
	note(c.Vote(ctx, v, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}}))
	note(c.Vote(ctx, v, txn.Votes{Votes: []txn.BranchVote{{Branch: 9, Vote: txn.VotePrepared}}}))
	note(c.Vote(ctx, v, txn.Votes{Reason: strings.Repeat("x", txn.MaxReason+1)}))
	note(c.Delegate(ctx, v, 1))
	note(c.Rollback(ctx, v, ""))
	note(c.Vote(ctx, v, txn.Votes{Votes: prepared}))
	note(c.Begin(ctx, txn.Options{ID: d, Branches: bank}))
	note(c.Delegate(ctx, d, 2))
	note(c.Delegate(ctx, d, 1))
	note(c.Delegate(ctx, d, 1))
	note(c.Get(ctx, d))
	note(c.Commit(ctx, d, txn.CommitRequest{}))
	note(c.Admin().InDoubts(ctx))
	note(c.ReportCompletion(ctx, d, txn.CompletionReport{Branch: 1, State: txn.BranchRolledBack}))
	note(c.Wait(ctx, d, txn.UntilFinished))
	note(c.Delegate(ctx, newID(99), 1))
	note(c.Begin(ctx, txn.Options{ID: l, Branches: bank}))
	note(c.Admin().Resolve(ctx, l, admin.Resolution{Commit: true, Reason: "she is sure"}))
	note(c.Commit(ctx, l, txn.CommitRequest{Votes: prepared}))
	note(c.Admin().Scan(ctx, "", false))
	note(c.Admin().Retry(ctx, l))
	note(c.Admin().Retry(ctx, txn.ID{}))
	note(c.Admin().Retry(ctx, newID(99)))
	note(f.LoseBranch(l, 1))
	note(c.Admin().InDoubts(ctx))
	note(c.Admin().Explain(ctx, l))
	note(c.Admin().Explain(ctx, newID(99)))
	note(c.Admin().Resolve(ctx, l, admin.Resolution{Branch: 1, Reason: "she looked", By: "ann"}))
	note(c.Admin().Resolve(ctx, l, admin.Resolution{Branch: 1, Reason: "she looked", By: "ann"}))
	note(c.Admin().Resolve(ctx, l, admin.Resolution{Reason: "again", By: "ann"}))
	note(c.Admin().Forget(ctx, d, "bob", "nothing to forget"))
	note(c.Admin().Forget(ctx, v, "bob", "too early"))
	note(c.Admin().Forget(ctx, l, "bob", "paid back"))
	note(c.Admin().Explain(ctx, l))
	note(c.Admin().Audit(ctx, admin.AuditFilter{}))
	note(c.Admin().Audit(ctx, admin.AuditFilter{ID: l, Since: time.Hour, Limit: 1}))
	note(c.Admin().Doctor(ctx, ""))
	note(c.Admin().Doctor(ctx, "bank"))
	note(c.Admin().Doctor(ctx, "unknown"))
	note(c.Admin().Join(ctx, "10.0.0.2:7461", "ann", "one more"))
	note(c.Admin().Join(ctx, "10.0.0.2:7461", "ann", "one more"))
	note(c.Admin().Status(ctx))
	note(c.Admin().TransferLeader(ctx, "n2", "ann", "maintenance"))
	note(c.Admin().TransferLeader(ctx, "n99", "ann", ""))
	note(c.Admin().TransferLeader(ctx, "", "", ""))
	note(c.Admin().Remove(ctx, "n2", "ann", "its disk is gone"))
	note(c.Admin().Remove(ctx, "n2", "ann", "its disk is gone"))
	note(c.Admin().Leave(ctx, "ann", "moves out"))
	f.SetRecoveryPaused(true)
	note(c.Admin().ResumeRecovery(ctx, "ann", "looked at"))
	note(c.Admin().ResumeRecovery(ctx, "ann", "looked at"))
	made, secret, err := c.Admin().CreateToken(ctx, admin.TokenRequest{Name: "app", Role: admin.RoleClient, Rate: 7, TTL: time.Hour, By: "ann", Reason: "for the shop"})
	found, known := f.AuthenticateToken(secret)
	note(made.Name, made.Role, made.Rate, made.Created, made.Expires, made.By, err, known, found.ID == made.ID)
	note(c.Admin().CreateToken(ctx, admin.TokenRequest{Name: "app"}))
	all, err := c.Admin().Tokens(ctx)
	note(len(all), err)
	note(c.Admin().RevokeToken(ctx, "app", "ann", "lost"))
	note(c.Admin().RevokeToken(ctx, "app", "ann", "lost"))
	var copied strings.Builder
	note(c.Admin().Backup(ctx, &copied))
	note(copied.String())
	note(c.Admin().Audit(ctx, admin.AuditFilter{}))
	note(c.Admin().Status(ctx))
	return notes
}

// ready adds the methods that only a coordinator itself has.
type ready struct{ *client.Client }

func (ready) Ready() error { return nil }

// OpenSession is the plain call: that of the client also keeps the session alive.
func (r ready) OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error) {
	return r.CreateSession(ctx, o)
}

func (ready) Leader() (api string, here bool) { return "", true }

func (ready) AuthenticateToken(string) (admin.Token, bool) { return admin.Token{}, false }

// A coordinator over the network answers as it does in the process, over either transport:
// all methods, values and errors.
func TestSameAsInProcess(t *testing.T) {
	fake := servertest.New()
	want := callEverything(t.Context(), fake, fake)
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		cfg.Address = serve(t, fake)
		got := callEverything(t.Context(), ready{open(t, cfg)}, fake)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-in process +over the network)\n%s", diff)
		}
	})
}

func TestBeginMakesAnID(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		seen := make(map[txn.ID]bool)
		for range 10 {
			b, err := c.Begin(t.Context(), txn.Options{})
			if err != nil || b.ID.IsZero() || seen[b.ID] {
				t.Fatalf("%v, %v", b.ID, err)
			}
			seen[b.ID] = true
		}
	})
}

func TestManyCallers(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		fake := servertest.New()
		cfg.Address = serve(t, fake)
		c := open(t, cfg)
		var wg sync.WaitGroup
		for n := range byte(50) { // 1 to 50: the zero id is not valid
			wg.Go(func() {
				for k := range 20 {
					id := txn.NewID(time.Unix(int64(k), 0), [9]byte{n + 1})
					b, err := c.Begin(t.Context(), txn.Options{ID: id, Name: id.String(), Branches: []txn.Enlistment{{Participant: "bank"}}})
					if err != nil || b.ID != id || b.Branches[0].XID != txn.XID(servertest.Cluster, id, 1) {
						t.Errorf("begin: %v, %v", b, err)
						return
					}
					if i, err := c.Get(t.Context(), id); err != nil || i.Name != id.String() {
						t.Errorf("the reply of another: %v, %v", i, err)
						return
					}
					if o, err := c.Commit(t.Context(), id, txn.CommitRequest{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}}); err != nil || o.State != txn.Committing {
						t.Errorf("commit: %v, %v", o, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if s, err := fake.Status(t.Context()); err != nil || s.Committed != 1000 {
			t.Errorf("%d committed, %v", s.Committed, err)
		}
	})
}

// Invalid bytes in one call are replaced and affect no other call of the same message.
func TestBadTextHurtsNobody(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{Name: "caf\xe9", Labels: map[string]string{"\xff": "\xff"}})
		if err != nil {
			t.Fatal(err)
		}
		i, err := c.Get(t.Context(), b.ID)
		if err != nil || i.Name != "caf\uFFFD" || i.Labels["\uFFFD"] != "\uFFFD" {
			t.Errorf("%q %q %v", i.Name, i.Labels, err)
		}
	})
}

func TestTooLargeACall(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		o := txn.Options{ID: newID(1)}
		for range 32 {
			o.Branches = append(o.Branches, txn.Enlistment{Participant: "bank", Payload: make([]byte, 64<<10)})
		}
		_, err := c.Begin(t.Context(), o)
		if e := (*txn.Error)(nil); !errors.Is(err, txn.ErrInvalid) || !errors.As(err, &e) || e.ID != o.ID {
			t.Errorf("%v", err)
		}
		// What fits goes through, also when several do not fit into one message.
		o.Branches = o.Branches[:8]
		var wg sync.WaitGroup
		for n := range byte(20) {
			o := o
			o.ID = newID(n + 2)
			wg.Go(func() {
				if _, err := c.Begin(t.Context(), o); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestWaitOutlastsTheServersLimit(t *testing.T) {
	fake := servertest.New()
	ln := listen(t, "127.0.0.1:0")
	t.Cleanup(serveOn(t, ln, fake, server.Config{MaxCallTimeout: 20 * time.Millisecond}))
	c := open(t, client.Config{Address: "http://" + ln.Addr().String()})
	b, err := c.Begin(t.Context(), txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(soon(t, 50*time.Millisecond), b.ID, txn.UntilFinished); !errors.Is(err, txn.ErrWaitTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended by the context: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		i, err := c.Wait(t.Context(), b.ID, txn.UntilFinished)
		if err == nil && i.State != txn.Committed {
			err = errors.New("is " + i.State.String())
		}
		waited <- err
	}()
	if _, err := c.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if _, err := c.Wait(t.Context(), newID(9), txn.UntilFinished); !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestWatch(t *testing.T) {
	fake := servertest.New()
	watching := make(chan struct{}, 1)
	fake.Before = func(_ context.Context, op string, _ txn.ID) error {
		if op == "watch" {
			watching <- struct{}{}
		}
		return nil
	}
	ln := listen(t, "127.0.0.1:0")
	stop := serveOn(t, ln, fake, server.Config{})
	t.Cleanup(stop)
	c := open(t, client.Config{Address: "http://" + ln.Addr().String()})
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan admin.Event), make(chan error, 1)
	watch := func(ctx context.Context) {
		var last error
		for e, err := range c.Watch(ctx, admin.Filter{}) {
			if last = err; err == nil {
				events <- e
			}
		}
		ended <- last
	}
	// An event between the first message and the fake's own start would be lost,
	// so begin until one is seen.
	see := func(n byte) {
		t.Helper()
		for ; ; n++ {
			if _, err := c.Begin(t.Context(), txn.Options{ID: newID(n), Name: "seen"}); err != nil {
				t.Fatal(err)
			}
			select {
			case e := <-events:
				if e.Name != "seen" || e.State != txn.Active {
					t.Errorf("%+v", e)
				}
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}

	go watch(ctx)
	<-watching
	see(1)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("after its context: %v", err)
	}

	go watch(t.Context())
	<-watching
	see(100)
	go func() {
		for range events {
		}
	}()
	stop()
	if err := <-ended; !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("after the server: %v", err)
	}
	close(events)
	for _, err := range c.Watch(t.Context(), admin.Filter{}) {
		if !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "no server listens at this address") {
			t.Errorf("without a server: %v", err)
		}
	}
}

func TestHTTPS(t *testing.T) {
	s, err := server.New(server.Config{}, servertest.New())
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(s.Handler())
	ts.EnableHTTP2 = true
	ts.StartTLS()
	defer ts.Close()
	roots := x509.NewCertPool()
	roots.AddCert(ts.Certificate())
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address, cfg.TLS = ts.URL, &tls.Config{RootCAs: roots}
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err == nil {
			_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	c := open(t, client.Config{Address: ts.URL})
	if _, err := c.Begin(t.Context(), txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger's certificate: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"":                        "empty",
		"127.0.0.1:7460":          "no scheme",
		"localhost":               "no scheme",
		"grpc://127.0.0.1:7460":   "scheme grpc",
		"http://":                 "no host",
		"http://u:p@host":         "only scheme",
		"http://a:1,":             "empty",
		"http://a:1,b:2":          "no scheme",
		"http://a:1/?x=1":         "only scheme",
		"http://127.0.0.1:port/":  "not a URL",
		"http://127.0.0.1:7460#x": "only scheme",
	} {
		if c, err := client.Dial(address); !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), client.DefaultAddress) {
			t.Errorf("%q: %v, %v", address, c, err)
		}
	}
	for _, cfg := range []client.Config{{RequestTimeout: -1}, {FanoutTimeout: -1}} {
		if _, err := client.Open(cfg); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("negative timeout: %v", err)
		}
	}
	c, err := client.Dial("http://a:1, https://b:2/base/")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
