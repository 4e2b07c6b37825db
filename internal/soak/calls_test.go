package soak

import (
	"context"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// mayAnswer are the errors that a call may return at any time, since others work on the same
// transactions meanwhile: they end them, and what has ended is forgotten after [retention]. A call
// that is not listed may return none. Those of the last group are made to be refused: nothing is in
// doubt, or to be removed.
var mayAnswer = map[string][]error{
	"Begin":    {txn.ErrSessionExpired}, // in an abandoned session
	"Enlist":   {txn.ErrNotActive, txn.ErrRolledBack, txn.ErrNotFound, txn.ErrConflict},
	"Commit":   {txn.ErrRolledBack, txn.ErrNotActive, txn.ErrNotFound, txn.ErrConflict},
	"Rollback": {txn.ErrConflict, txn.ErrNotFound},
	"Vote":     {txn.ErrRolledBack, txn.ErrNotActive, txn.ErrNotFound, txn.ErrConflict},
	"Delegate": {txn.ErrRolledBack, txn.ErrNotActive, txn.ErrNotFound, txn.ErrConflict},
	"Extend":   {txn.ErrRolledBack, txn.ErrNotActive, txn.ErrNotFound, txn.ErrConflict},
	"Get":      {txn.ErrNotFound},
	"Wait":     {txn.ErrNotFound},
	"Explain":  {txn.ErrNotFound},

	"KeepAlive":    {txn.ErrNotFound},
	"CloseSession": {txn.ErrNotFound},

	"RemoveParticipant": {txn.ErrNotFound, txn.ErrConflict},
	"RevokeToken":       {txn.ErrNotFound},

	callRun:    {txn.ErrRolledBack},
	callRunIn:  {txn.ErrRolledBack, txn.ErrNotActive},
	callAttach: {txn.ErrNotActive, txn.ErrRolledBack, txn.ErrNotFound},

	"Resolve": {txn.ErrConflict, txn.ErrNotFound},
	"Forget":  {txn.ErrConflict, txn.ErrNotFound},
	"Remove":  {txn.ErrNotFound},
	"Leave":   {txn.ErrInvalid},
	"Join":    {txn.ErrUnavailable, txn.ErrInvalid},
}

// writes are the calls whose answer shows that writes are served.
var writes = map[string]bool{
	"Begin": true, "Enlist": true, "Commit": true, "Vote": true, "Delegate": true, "ReportCompletion": true,
	"CreateSession": true, "OpenSession": true, "CreateToken": true,
}

// refusals are the calls that never succeed here.
var refusals = []string{"Resolve", "Remove", "Leave", "Join"}

// otherCalls are the calls that are not made by [load.randomCalls].
var otherCalls = []string{"Delegate", "ReportCompletion", "TransferLeader", "OpenSession", "Close", callRun, callRunIn, callFollow}

// randomCall is a call that is made at random.
type randomCall struct {
	name  string
	share int // of a thousand or so
	call  func(l *load, ctx context.Context, m *recordingClient) error
}

// randomCalls are all calls but those that are made elsewhere.
func randomCalls() []randomCall {
	about := func(f func(ctx context.Context, m *recordingClient, id txn.ID) error) func(*load, context.Context, *recordingClient) error {
		return func(l *load, ctx context.Context, m *recordingClient) error { return f(ctx, m, l.someID()) }
	}
	ask := func(f func(ctx context.Context, m *recordingClient) error) func(*load, context.Context, *recordingClient) error {
		return func(l *load, ctx context.Context, m *recordingClient) error { return f(ctx, m) }
	}
	return []randomCall{
		{"Begin", 160, (*load).begin},
		{"Enlist", 60, (*load).enlist},
		{"Vote", 40, (*load).vote},
		{"Commit", 80, func(l *load, ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Commit(ctx, l.someDisposable(), txn.CommitRequest{})
			return err
		}},
		{"Rollback", 40, func(l *load, ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Rollback(ctx, l.someDisposable(), "soak test")
			return err
		}},
		{"Extend", 40, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			_, err := m.Client.Extend(ctx, id, between(time.Second, 4*time.Second))
			return err
		})},
		{"Get", 100, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			if rand.IntN(3) == 0 {
				ctx = txn.AllowStale(ctx)
			}
			_, err := m.Client.Get(ctx, id)
			return err
		})},
		{"Wait", 60, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			_, err := m.Client.Wait(ctx, id, oneOf(txn.UntilDecided, txn.UntilFinished))
			return err
		})},
		{callAttach, 10, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			_, err := txn.Attach(ctx, m.Client, id)
			return err
		})},
		{"List", 60, ask(list)},
		{"Watch", 40, ask(watch)},
		{"DeadlineGroups", 20, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
			return err
		})},
		{"Status", 30, ask(func(ctx context.Context, m *recordingClient) error { _, err := m.Admin().Status(ctx); return err })},
		{"Ping", 15, ask(func(ctx context.Context, m *recordingClient) error { return m.Ping(ctx) })},
		{"Participants", 20, ask(func(ctx context.Context, m *recordingClient) error { _, err := m.Admin().Participants(ctx); return err })},
		{"Pools", 10, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Admin().Pools(ctx, oneOf("", inBank))
			return err
		})},
		{"InDoubts", 10, ask(func(ctx context.Context, m *recordingClient) error { _, err := m.Admin().InDoubts(ctx); return err })},
		{"Audit", 10, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Admin().Audit(ctx, admin.AuditFilter{Limit: 100})
			return err
		})},
		{"Tokens", 10, ask(func(ctx context.Context, m *recordingClient) error { _, err := m.Admin().Tokens(ctx); return err })},
		{"CreateSession", 30, (*load).createSession},
		{"KeepAlive", 60, (*load).keepAlive},
		{"CloseSession", 15, (*load).closeSession},
		{"Sessions", 20, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Admin().Sessions(ctx, admin.SessionFilter{Ended: rand.IntN(2) == 0, Limit: 100})
			return err
		})},
		{"CreateToken", 6, (*load).createToken},
		{"RevokeToken", 8, (*load).revokeToken},
		{"AddParticipant", 6, func(l *load, ctx context.Context, m *recordingClient) error {
			return m.Client.Admin().AddParticipant(ctx, admin.Participant{Name: "spare", Kind: ledger.Kind, Settings: map[string]string{"path": filepath.Join(l.b.dir, "spare.ledger")}}, "", "")
		}},
		{"RemoveParticipant", 5, ask(func(ctx context.Context, m *recordingClient) error {
			return m.Client.Admin().RemoveParticipant(ctx, "spare", "", "")
		})},
		{"Backup", 4, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Admin().Backup(ctx, io.Discard)
			return err
		})},
		{"Explain", 10, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			_, err := m.Client.Admin().Explain(ctx, id)
			return err
		})},
		{"Doctor", 3, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Admin().Doctor(ctx, oneOf("", inBank, inSavings))
			return err
		})},
		{"Scan", 5, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Admin().Scan(ctx, oneOf("", inBank, inSavings), rand.IntN(2) == 0)
			return err
		})},
		{"TestParticipant", 6, ask(func(ctx context.Context, m *recordingClient) error {
			return m.Client.Admin().TestParticipant(ctx, oneOf(inBank, inSavings))
		})},
		{"Retry", 5, ask(func(ctx context.Context, m *recordingClient) error { return m.Client.Admin().Retry(ctx, txn.ID{}) })},
		{"Resolve", 4, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			if info, err := m.Get(ctx, id); err != nil || !info.State.Finished() {
				id = rig.NewID() // one in doubt would really be resolved
			}
			_, err := m.Client.Admin().Resolve(ctx, id, admin.Resolution{Commit: true, Reason: "soak test", By: "soak"})
			return err
		})},
		{"Forget", 4, about(func(ctx context.Context, m *recordingClient, id txn.ID) error {
			_, err := m.Client.Admin().Forget(ctx, id, "soak", "soak test")
			return err
		})},
		{"ResumeRecovery", 4, ask(func(ctx context.Context, m *recordingClient) error {
			return m.Client.Admin().ResumeRecovery(ctx, "soak", "soak test")
		})},
		{"Remove", 4, ask(func(ctx context.Context, m *recordingClient) error {
			return m.Client.Admin().Remove(ctx, "unknown", "soak", "soak test")
		})},
		{"Leave", 4, func(l *load, ctx context.Context, _ *recordingClient) error {
			return l.all.Client.Admin().Leave(ctx, "soak", "")
		}},
		{"Join", 2, ask(func(ctx context.Context, m *recordingClient) error {
			_, err := m.Client.Admin().Join(ctx, "127.0.0.1:9", "soak", "")
			return err
		})},
	}
}

func list(ctx context.Context, m *recordingClient) error {
	f := admin.Filter{Limit: oneOf(0, 10, 200)}
	switch rand.IntN(6) {
	case 0:
		f.States = []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}
	case 1:
		f.Participant = oneOf(inBank, inSavings, inVault)
	case 2:
		f.OlderThan = between(time.Second, 10*time.Second)
	case 3:
		f.ExpiresWithin = between(time.Second, 5*time.Second)
	case 4:
		ctx = txn.AllowStale(ctx)
	}
	_, err := m.List(ctx, f)
	return err
}

// watch ends with its caller's context, which is no error.
func watch(ctx context.Context, m *recordingClient) error {
	for _, err := range m.Watch(ctx, admin.Filter{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEveryCallIsMade: the load makes every call of the client, and those of operators.
func TestEveryCallIsMade(t *testing.T) {
	made := map[string]bool{}
	for _, c := range randomCalls() {
		made[c.name] = true
	}
	for _, name := range otherCalls {
		made[name] = true
	}
	made["Admin"] = true           // has the calls of operators
	made["NameTransaction"] = true // makes no call
	for _, api := range []reflect.Type{reflect.TypeFor[*client.Client](), reflect.TypeFor[admin.Calls]()} {
		for i := range api.NumMethod() {
			if name := api.Method(i).Name; !made[name] {
				t.Errorf("the load does not call %s", name)
			}
		}
	}
}
