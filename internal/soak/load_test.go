package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The number of callers of each kind. They pause between two calls: the soak test does not measure
// how much the machine can do.
const (
	transferWorkers = 5  // make transfers
	callers         = 6  // make other calls
	waiters         = 16 // wait for transactions, with short timeouts
	sessionWorkers  = 2  // open sessions and abandon them
)

// load is the callers, and the transactions that they know.
type load struct {
	b       *testEnv
	all     *recordingClient   // has the addresses of all nodes
	clients []*recordingClient // all, and others

	followers sync.WaitGroup // applications that complete what they have prepared

	mu         sync.Mutex // guards all below
	made       []*transfer
	ids        []txn.ID // of the newest transactions, of all callers
	disposable []txn.ID // of those that any caller may end
	sessions   []txn.SessionID
	tokens     []string
}

// newLoad opens the clients: with a pipe and without, to all nodes and to one.
func newLoad(b *testEnv) *load {
	l := &load{b: b}
	add := func(address string, unary bool) *recordingClient {
		m := &recordingClient{b.open(address, 10*time.Second, unary), b.calls}
		l.clients = append(l.clients, m)
		return m
	}
	l.all = add(b.allURLs(), false)
	add(b.allURLs(), true)
	for _, n := range b.nodes {
		add(n.url, rand.IntN(2) == 0)
	}
	return l
}

// close closes the clients.
func (l *load) close() {
	for _, m := range l.clients {
		l.b.must(m.Client.Close())
	}
}

// anyClient draws a client: most applications have the addresses of all nodes.
func (l *load) anyClient() *recordingClient {
	if rand.IntN(2) == 0 {
		return l.all
	}
	return oneOf(l.clients...)
}

// run runs all callers until ctx ends, and returns when the last call has ended.
func (l *load) run(ctx context.Context) {
	var busy sync.WaitGroup
	for range transferWorkers {
		busy.Go(func() { l.transfers(ctx) })
	}
	for range callers {
		busy.Go(func() { l.call(ctx) })
	}
	for range waiters {
		busy.Go(func() { l.wait(ctx) })
	}
	for i := range sessionWorkers {
		busy.Go(func() { l.abandonSessions(ctx, i) })
	}
	busy.Wait()
	l.followers.Wait()
}

// shortContext returns a context that ends by itself, in one of two ways.
func shortContext(least, most time.Duration) (context.Context, context.CancelFunc) {
	d := between(least, most)
	if rand.IntN(2) == 0 {
		return context.WithTimeout(context.Background(), d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// call makes one random call after the other. One in three has a short timeout, and a watch one
// that suffices to see something.
func (l *load) call(ctx context.Context) {
	all, total := randomCalls(), 0
	for _, c := range all {
		total += c.share
	}
	for rig.Sleep(ctx, between(5*time.Millisecond, 40*time.Millisecond)) {
		luck := rand.IntN(total)
		for _, c := range all {
			if luck -= c.share; luck >= 0 {
				continue
			}
			calling, cancel := context.WithCancel(context.Background())
			switch {
			case rand.IntN(3) == 0:
				calling, cancel = shortContext(time.Millisecond, 150*time.Millisecond)
			case c.name == "Watch":
				calling, cancel = shortContext(100*time.Millisecond, 2*time.Second)
			case c.name == "Wait":
				calling, cancel = shortContext(time.Second, 8*time.Second)
			}
			m := l.anyClient()
			err := l.b.calls.call(c.name, calling, func() error {
				err := c.call(l, calling, m)
				if c.name == "Watch" && calling.Err() != nil && errors.Is(err, calling.Err()) {
					err = nil // that is how a watch ends
				}
				return err
			})
			cancel()
			if err != nil && errors.Is(err, txn.ErrUnavailable) {
				rig.Sleep(ctx, between(10*time.Millisecond, 100*time.Millisecond))
			}
			break
		}
	}
}

// wait waits for transactions, for less time than they take.
func (l *load) wait(ctx context.Context) {
	for rig.Sleep(ctx, between(time.Millisecond, 10*time.Millisecond)) {
		waiting, cancel := shortContext(5*time.Millisecond, 200*time.Millisecond)
		_, _ = l.anyClient().Wait(waiting, l.someID(), oneOf(txn.UntilDecided, txn.UntilFinished))
		cancel()
	}
}

// abandonSessions opens sessions with clients of their own, and closes them, or lets them expire as
// if the process had crashed.
func (l *load) abandonSessions(ctx context.Context, n int) {
	for rig.Sleep(ctx, between(200*time.Millisecond, time.Second)) {
		c, err := client.Open(client.Config{
			Address: oneOf(l.b.allURLs(), l.b.nodes[n].url), RequestTimeout: 10 * time.Second,
			CACertFile: l.b.provisionPath("ca.pem"), TokenFile: l.b.provisionPath("root.token"),
		})
		if err != nil {
			l.b.t.Error(err)
			return
		}
		opening, cancel := context.WithCancel(context.Background())
		if rand.IntN(4) == 0 {
			opening, cancel = shortContext(time.Millisecond, 50*time.Millisecond)
		}
		var s *client.Session
		err = l.b.calls.call("OpenSession", opening, func() (err error) {
			s, err = c.OpenSession(opening, client.SessionOptions{Name: "guest", TTL: 2 * time.Second})
			return err
		})
		cancel()
		if err == nil {
			m := &recordingClient{c, l.b.calls}
			for range 1 + rand.IntN(4) {
				beginning, cancel := shortContext(50*time.Millisecond, 5*time.Second)
				if begun, err := m.Begin(client.WithSession(beginning, s), txn.Options{Name: "of a guest", Timeout: 20 * time.Second}); err == nil {
					l.addID(begun.ID)
				}
				cancel()
				rig.Sleep(ctx, between(50*time.Millisecond, 500*time.Millisecond))
			}
			if rand.IntN(2) == 0 {
				_ = l.b.calls.call("CloseSession", context.Background(), func() error { return s.Close(context.Background()) })
			}
		}
		if err := c.Close(); err != nil {
			l.b.t.Error(err)
		}
	}
}

// keepNewest is how many ids are kept.
const keepNewest = 200

func newest[T any](all []T, one T) []T {
	all = append(all, one)
	return all[max(0, len(all)-keepNewest):]
}

// addID adds a transaction that other callers may read.
func (l *load) addID(id txn.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = newest(l.ids, id)
}

func (l *load) someID() txn.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) == 0 {
		return rig.NewID()
	}
	newer := l.ids[len(l.ids)/2:]
	return newer[rand.IntN(len(newer))]
}

// someDisposable returns a transaction that any caller may end.
func (l *load) someDisposable() txn.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.disposable) == 0 {
		return rig.NewID()
	}
	newer := l.disposable[len(l.disposable)*9/10:]
	return newer[rand.IntN(len(newer))]
}

func (l *load) begin(ctx context.Context, m *recordingClient) error {
	o := txn.Options{Name: "chore", Timeout: between(500*time.Millisecond, 4*time.Second), Labels: map[string]string{"of": "soak"}}
	if rand.IntN(3) == 0 {
		payload, err := json.Marshal(vaultPayload{})
		if err != nil {
			return err
		}
		o.Branches = []txn.Enlistment{{Participant: inVault, Payload: payload}}
	}
	begun, err := m.Client.Begin(ctx, o)
	if err == nil {
		l.addID(begun.ID)
		l.mu.Lock()
		l.disposable = newest(l.disposable, begun.ID)
		l.mu.Unlock()
	}
	return err
}

// enlist adds a branch that never does anything.
func (l *load) enlist(ctx context.Context, m *recordingClient) error {
	_, err := m.Client.Enlist(ctx, l.someDisposable(), txn.Enlistment{Participant: oneOf(inBank, inSavings)})
	return err
}

// vote votes read-only for a branch.
func (l *load) vote(ctx context.Context, m *recordingClient) error {
	id := l.someDisposable()
	b, err := m.Enlist(ctx, id, txn.Enlistment{Participant: inBank})
	if err == nil {
		_, err = m.Client.Vote(ctx, id, txn.Votes{Votes: []txn.BranchVote{{Branch: b.ID, Vote: txn.VoteReadOnly}}})
	}
	return err
}

func (l *load) createSession(ctx context.Context, m *recordingClient) error {
	s, err := m.Client.CreateSession(ctx, txn.SessionOptions{Name: "chore", TTL: 2 * time.Second})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sessions = newest(l.sessions, s.ID)
	}
	return err
}

func (l *load) someSession() txn.SessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sessions) == 0 {
		return txn.NewSessionID(time.Now(), [9]byte{1})
	}
	newer := l.sessions[len(l.sessions)*3/4:]
	return newer[rand.IntN(len(newer))]
}

func (l *load) keepAlive(ctx context.Context, m *recordingClient) error {
	_, err := m.Client.KeepAlive(ctx, l.someSession())
	return err
}

func (l *load) closeSession(ctx context.Context, m *recordingClient) error {
	return m.Client.CloseSession(ctx, l.someSession())
}

func (l *load) createToken(ctx context.Context, m *recordingClient) error {
	token, _, err := m.Client.Admin().CreateToken(ctx, admin.TokenRequest{Name: fmt.Sprintf("soak-%v", rig.NewID()), Role: admin.RoleReader})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tokens = append(l.tokens, token.ID)
	}
	return err
}

// revokeToken revokes the oldest token.
func (l *load) revokeToken(ctx context.Context, m *recordingClient) error {
	l.mu.Lock()
	if len(l.tokens) == 0 {
		l.mu.Unlock()
		return m.Client.Admin().RevokeToken(ctx, "nobody", "soak", "a chore")
	}
	token := l.tokens[0]
	l.tokens = l.tokens[1:]
	l.mu.Unlock()
	return m.Client.Admin().RevokeToken(ctx, token, "soak", "a chore")
}
