package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// fakeHandler is a Handler made of functions.
type fakeHandler struct {
	join  func(context.Context, Identity) error
	leave func(ctx context.Context, i Identity, by, reason string) error
	found func(context.Context, Identity, []Member) error
}

func (d fakeHandler) Join(ctx context.Context, i Identity) error { return d.join(ctx, i) }

func (d fakeHandler) Leave(ctx context.Context, i Identity, by, reason string) error {
	return d.leave(ctx, i, by, reason)
}

func (d fakeHandler) ConsentToBootstrap(ctx context.Context, i Identity, m []Member) error {
	return d.found(ctx, i, m)
}

func withHandler(d fakeHandler) func(*Config) { return func(c *Config) { c.Handler = d } }

func TestHello(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	want := Identity{
		ID: "n_b", Name: "b", RaftAddr: b.Addr(), API: "http://b:7460", Version: "v1", Cluster: "c", Incarnation: 0,
		Empty: true, Expect: 3, Settings: "100ms", Leader: "x:1", IsLeader: true, Removed: true,
	}
	b.update(func(i *Identity) { *i = want })
	got, err := a.Hello(testContext(t), b.Addr())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if self, err := a.Hello(testContext(t), a.Addr()); err != nil || self.ID != "n_a" {
		t.Errorf("hello to itself: %+v, %v", self, err)
	}
}

func TestJoinAndLeave(t *testing.T) {
	said := make(chan Identity, 2)
	note := func(_ context.Context, i Identity) error { said <- i; return nil }
	by, reason := strings.Repeat("\x01", txn.MaxName), strings.Repeat("\x01", txn.MaxReason) // the longest ones, which take the most bytes
	noteLeave := func(ctx context.Context, i Identity, b, r string) error {
		if b != by || r != reason {
			t.Errorf("it leaves by %q, for %q", b, r)
		}
		return note(ctx, i)
	}
	l := start(t, "n_l", withHandler(fakeHandler{join: note, leave: noteLeave}))
	redirect := func(context.Context, Identity) error { return &NotLeaderError{Leader: l.Addr()} }
	b := start(t, "n_b", withHandler(fakeHandler{join: redirect, leave: func(ctx context.Context, i Identity, _, _ string) error { return redirect(ctx, i) }}))
	a := start(t, "n_a")
	leave := func(ctx context.Context, addr string) (Identity, error) { return a.Leave(ctx, addr, by, reason) }
	for _, long := range [][2]string{{by + "a", reason}, {by, reason + "a"}} {
		if _, err := a.Leave(testContext(t), l.Addr(), long[0], long[1]); err == nil {
			t.Errorf("a name of %d bytes and a reason of %d were taken", len(long[0]), len(long[1]))
		}
	}
	for name, ask := range map[string]func(context.Context, string) (Identity, error){"join": a.Join, "leave": leave} {
		for at, addr := range map[string]string{"leader": l.Addr(), "follower": b.Addr()} {
			who, err := ask(testContext(t), addr)
			if err != nil || who.ID != "n_l" {
				t.Errorf("%s at the %s: %+v, %v", name, at, who, err)
				continue
			}
			if diff := cmp.Diff(a.identity(), <-said); diff != "" {
				t.Errorf("%s at the %s: what arrived:\n%s", name, at, diff)
			}
		}
	}
}

func TestFound(t *testing.T) {
	want := []Member{{"n_a", "a:1"}, {"n_b", "b:1"}}
	said := make(chan []Member, 1)
	b := start(t, "n_b", withHandler(fakeHandler{found: func(_ context.Context, i Identity, m []Member) error {
		said <- m
		if i.ID != "n_a" {
			return txn.ErrInvalid
		}
		return nil
	}}))
	a := start(t, "n_a")
	if err := a.ConsentToBootstrap(testContext(t), b.Addr(), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, <-said); diff != "" {
		t.Error(diff)
	}
	for name, members := range map[string][]Member{
		"nobody": nil, "too many": make([]Member, maxMembers+1), "one without id": {{RaftAddr: "a:1"}},
	} {
		if err := a.ConsentToBootstrap(testContext(t), b.Addr(), members); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nodes that send one another round do not send for ever.
func TestRedirectsEnd(t *testing.T) {
	var b, c *node
	asked := 0
	b = start(t, "n_b", withHandler(fakeHandler{join: func(context.Context, Identity) error { asked++; return &NotLeaderError{c.Addr()} }}))
	c = start(t, "n_c", withHandler(fakeHandler{join: func(context.Context, Identity) error { return &NotLeaderError{b.Addr()} }}))
	_, err := start(t, "n_a").Join(testContext(t), b.Addr())
	if n := (*NotLeaderError)(nil); !errors.As(err, &n) || !errors.Is(err, txn.ErrUnavailable) || asked != 2 {
		t.Errorf("%v, after asking %d times", err, asked)
	}
}

// Errors keep what callers decide by.
func TestErrorsCross(t *testing.T) {
	a := start(t, "n_a")
	for _, want := range []error{
		txn.ErrInvalid, txn.ErrNotFound, txn.ErrConflict, txn.ErrDenied, txn.ErrUnavailable, txn.ErrInDoubt,
		ErrRemoved, ErrClusterMismatch, ErrDuplicateID,
	} {
		b := start(t, "n_b", withHandler(fakeHandler{join: func(context.Context, Identity) error { return fmt.Errorf("%w: because of this", want) }}))
		_, err := a.Join(testContext(t), b.Addr())
		if !errors.Is(err, want) || txn.CodeOf(err) != txn.CodeOf(want) || !strings.Contains(err.Error(), "because of this") {
			t.Errorf("%v came as %v", want, err)
		}
	}
	odd := start(t, "n_o", withHandler(fakeHandler{join: func(context.Context, Identity) error { return errors.New(strings.Repeat("ä", maxRequestBytes)) }}))
	if _, err := a.Join(testContext(t), odd.Addr()); err == nil || txn.CodeOf(err) == txn.CodeOK || len(err.Error()) > 2*maxText {
		t.Errorf("an error without a sentinel, and too long: %.100v", err)
	}
	if _, err := a.Join(testContext(t), start(t, "n_n").Addr()); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("no handler: %v", err)
	}
	if _, err := a.Hello(testContext(t), "127.0.0.1:1"); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
}

// A node asks for itself only.
func TestAsksForItself(t *testing.T) {
	b := start(t, "n_b", withHandler(fakeHandler{leave: func(context.Context, Identity, string, string) error { t.Error("it was let through"); return nil }}))
	_, err := start(t, "n_a").call(testContext(t), b.Addr(), request{Method: methodLeave, From: Identity{ID: "n_c"}})
	if !errors.Is(err, txn.ErrDenied) {
		t.Errorf("%v", err)
	}
}

// A request ends when its caller, or either server, does.
func TestQuestionEnds(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, a, b *node){
		"the caller gives up": func(cancel context.CancelFunc, _, _ *node) { cancel() },
		"the caller closes":   func(_ context.CancelFunc, a, _ *node) { _ = a.Close() },
		"the other closes":    func(_ context.CancelFunc, _, b *node) { _ = b.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan error, 1)
			b := start(t, "n_b", withHandler(fakeHandler{join: func(ctx context.Context, _ Identity) error {
				close(begun)
				select {
				case <-ctx.Done():
				case <-time.After(testTimeout):
				}
				ended <- ctx.Err()
				return ctx.Err()
			}}))
			a := start(t, "n_a")
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			asked := make(chan error, 1)
			go func() { _, err := a.Join(ctx, b.Addr()); asked <- err }()
			<-begun
			end(cancel, a, b)
			if err := <-ended; err == nil {
				t.Error("the handler was not told")
			}
			if err := <-asked; !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("the caller got %v", err)
			}
		})
	}
}

// Requests beyond the limit are refused; the others are answered.
func TestQuestionsAreBounded(t *testing.T) {
	begun, let := make(chan struct{}, maxConcurrentRequests), make(chan struct{})
	b := start(t, "n_b", withHandler(fakeHandler{join: func(context.Context, Identity) error { begun <- struct{}{}; <-let; return nil }}))
	a := start(t, "n_a")
	answers := make(chan error, maxConcurrentRequests)
	for range maxConcurrentRequests {
		go func() { _, err := a.Join(testContext(t), b.Addr()); answers <- err }()
		<-begun
	}
	if _, err := a.Join(testContext(t), b.Addr()); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	close(let)
	for range maxConcurrentRequests {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// Nodes of another release learn which version is not understood.
func TestOtherVersion(t *testing.T) {
	b := start(t, "n_b")
	c := dialRaw(t, b.Server, magic+"\x09"+string([]byte{frameCall, 0, 0}))
	w, err := readHelloReply(c)
	if err != nil || !strings.Contains(w.Fault.Text, "9; this node speaks 1") {
		t.Errorf("%+v, %v", w, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte(magic + "\x09" + string([]byte{frameHelloReply, 0, 0})))
			_, _ = readHello(c)
			c.Close()
		}
	}()
	if _, err := b.Hello(testContext(t), l.Addr().String()); !errors.Is(err, errVersion) {
		t.Errorf("an acceptor of another release: %v", err)
	}
}
