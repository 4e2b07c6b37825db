package txntest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/txntest"
)

// unreachableParticipant is a participant that cannot be reached, so that nothing happens but what
// the calls do.
type unreachableParticipant struct{}

var errAway = errors.New("away")

func (unreachableParticipant) Commit(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{}, errAway
}

func (unreachableParticipant) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{}, errAway
}

func (unreachableParticipant) Prepared(context.Context, string) ([]participant.Prepared, error) {
	return nil, errAway
}

func (unreachableParticipant) Check(context.Context) error { return nil }

func (unreachableParticipant) Close() error { return nil }

// service is one that is asked for its vote, in vain.
type service struct{ unreachableParticipant }

func (service) Prepare(context.Context, participant.Branch) (txn.Vote, string, error) {
	return 0, "", errAway
}

// coordinator is the interface that a scenario calls.
type coordinator interface {
	txn.Manager
	OpenSession(ctx context.Context, o txn.SessionOptions) (admin.ClientSession, error)
	KeepAlive(ctx context.Context, id txn.SessionID) (admin.ClientSession, error)
	CloseSession(ctx context.Context, id txn.SessionID) error
	Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error)
}

// nodeCoordinator is a node as a [coordinator].
type nodeCoordinator struct{ *node.Node }

func (n nodeCoordinator) Sessions(ctx context.Context, f admin.SessionFilter) ([]admin.ClientSession, error) {
	return n.Admin().Sessions(ctx, f)
}

// scenario is a list of calls, the same for every coordinator.
type scenario struct {
	calls []func(ctx context.Context, m coordinator) string
	told  []string
}

func (s *scenario) add(name string, call func(ctx context.Context, m coordinator) (any, error)) {
	s.told = append(s.told, name)
	s.calls = append(s.calls, func(ctx context.Context, m coordinator) string {
		answer, err := call(ctx, m)
		return fmt.Sprintf("%s: %+v, %v (%v)", name, answer, err, txn.CodeOf(err))
	})
}

func (s *scenario) begin(o txn.Options) {
	s.add(fmt.Sprintf("begin %v", o), func(ctx context.Context, m coordinator) (any, error) { return m.Begin(ctx, o) })
}

func (s *scenario) get(tx txn.ID) {
	s.add(fmt.Sprintf("get %v", tx), func(ctx context.Context, m coordinator) (any, error) { return shown(m.Get(ctx, tx)) })
}

func (s *scenario) pause(d time.Duration) {
	s.add(fmt.Sprintf("%v pass", d), func(context.Context, coordinator) (any, error) {
		<-time.After(d)
		return nil, nil
	})
}

func id(n int) txn.ID {
	if n == 0 {
		return txn.ID{}
	}
	return txn.NewID(time.UnixMilli(int64(n)), [9]byte{7})
}

func drawScenario(t *rapid.T) *scenario {
	s := &scenario{}
	participants := []string{"bank", "stock", "mail"}
	votes := rapid.Custom(func(t *rapid.T) txn.BranchVote {
		return txn.BranchVote{
			Branch: rapid.SampledFrom([]txn.BranchID{1, 1, 2, 2, 3, 9}).Draw(t, "branch"),
			Vote:   rapid.SampledFrom([]txn.Vote{txn.VotePrepared, txn.VotePrepared, txn.VotePrepared, txn.VoteReadOnly, txn.VoteNo, txn.VoteDelegated}).Draw(t, "vote"),
		}
	})
	guests := rapid.Bool().Draw(t, "sessions")
	first := txn.Options{ID: id(1)}
	if guests {
		s.open(txn.SessionOptions{ID: session(1), TTL: time.Second})
		first.Session = session(1)
	}
	for _, p := range participants[:rapid.IntRange(0, 2).Draw(t, "first branches")] {
		first.Branches = append(first.Branches, txn.Enlistment{Participant: p})
	}
	s.begin(first)
	for range rapid.IntRange(1, 20).Draw(t, "calls") {
		tx := id(rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 2, 3, 0}).Draw(t, "transaction"))
		if guests && rapid.IntRange(0, 2).Draw(t, "about a session") == 0 {
			s.drawSession(t)
			s.get(tx)
			continue
		}
		switch what := rapid.IntRange(0, 13).Draw(t, "call"); what {
		case 0, 1, 2:
			o := txn.Options{ID: tx, Timeout: rapid.SampledFrom([]time.Duration{0, time.Nanosecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Hour, 25 * time.Hour}).Draw(t, "timeout")}
			if tx.IsZero() {
				o.ID = id(4)
			}
			for _, p := range rapid.SliceOfN(rapid.SampledFrom(append(participants, "Bank")), 0, 2).Draw(t, "branches") {
				o.Branches = append(o.Branches, txn.Enlistment{Participant: p})
			}
			if guests {
				o.Session = session(rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3}).Draw(t, "session"))
			}
			s.begin(o)
		case 3, 4:
			e := txn.Enlistment{Participant: rapid.SampledFrom(participants).Draw(t, "participant"), Payload: rapid.SampledFrom([][]byte{nil, nil, []byte("x")}).Draw(t, "payload")}
			s.add(fmt.Sprintf("enlist %v %v", tx, e), func(ctx context.Context, m coordinator) (any, error) { return m.Enlist(ctx, tx, e) })
		case 5, 6:
			c := txn.CommitRequest{ClientCompletes: rapid.Bool().Draw(t, "own")}
			if what == 5 {
				c.Votes = rapid.SliceOfN(votes, 0, 3).Draw(t, "votes")
			}
			for n := range txn.BranchID(rapid.IntRange(0, 2).Draw(t, "yes")) {
				c.Votes = append(c.Votes, txn.BranchVote{Branch: n + 1, Vote: txn.VotePrepared})
			}
			s.add(fmt.Sprintf("commit %v %v", tx, c), func(ctx context.Context, m coordinator) (any, error) {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				return m.Commit(ctx, tx, c)
			})
		case 7:
			b := txn.Votes{Votes: rapid.SliceOfN(votes, 0, 3).Draw(t, "votes"), Reason: rapid.SampledFrom([]string{"", "because", strings.Repeat("x", 600)}).Draw(t, "reason")}
			s.add(fmt.Sprintf("vote %v %v", tx, b.Votes), func(ctx context.Context, m coordinator) (any, error) { return m.Vote(ctx, tx, b) })
		case 8:
			b := rapid.SampledFrom([]txn.BranchID{1, 1, 1, 2}).Draw(t, "branch")
			s.add(fmt.Sprintf("delegate %v %v", tx, b), func(ctx context.Context, m coordinator) (any, error) { return m.Delegate(ctx, tx, b) })
		case 9:
			reason := rapid.SampledFrom([]string{"", "enough", strings.Repeat("x", 600)}).Draw(t, "reason")
			s.add(fmt.Sprintf("rollback %v", tx), func(ctx context.Context, m coordinator) (any, error) { return m.Rollback(ctx, tx, reason) })
		case 10:
			d := rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, time.Second}).Draw(t, "timeout")
			s.add(fmt.Sprintf("extend %v %v", tx, d), func(ctx context.Context, m coordinator) (any, error) { return m.Extend(ctx, tx, d) })
		case 11:
			a := txn.CompletionReport{Branch: rapid.SampledFrom([]txn.BranchID{1, 1, 2, 9}).Draw(t, "branch"), State: rapid.SampledFrom([]txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack, txn.BranchPrepared}).Draw(t, "state")}
			s.add(fmt.Sprintf("done %v %v", tx, a), func(ctx context.Context, m coordinator) (any, error) { return nil, m.ReportCompletion(ctx, tx, a) })
		case 12:
			goal := rapid.SampledFrom([]txn.Goal{txn.UntilFinished, txn.UntilDecided}).Draw(t, "goal")
			s.add(fmt.Sprintf("wait %v %v", tx, goal), func(ctx context.Context, m coordinator) (any, error) {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				return shown(m.Wait(ctx, tx, goal))
			})
		case 13:
			d := rapid.SampledFrom([]time.Duration{time.Millisecond, 130 * time.Millisecond, time.Second}).Draw(t, "pause")
			s.pause(d)
		}
		s.get(tx)
	}
	return s
}

// shown leaves out what differs between two coordinators that do the same: the names
// of clusters and kinds, the wall clock, the place in the log, and how often recovery
// has tried.
func shown(i txn.Info, err error) (txn.Info, error) {
	i.Began, i.Decided, i.DecidedIndex = time.Time{}, time.Time{}, 0
	for k := range i.Branches {
		b := &i.Branches[k]
		b.Kind, b.XID, b.Attempts, b.LastError, b.NextTry = "", "", 0, "", 0
	}
	return i, err
}

// run makes the calls, each at a whole millisecond.
func (s *scenario) run(m coordinator) (answers []string) {
	began := time.Now()
	for _, call := range s.calls {
		answers = append(answers, call(context.Background(), m))
		synctest.Wait()
		if past := time.Since(began) % time.Millisecond; past > 0 {
			<-time.After(time.Millisecond - past)
		}
	}
	return answers
}

// TestAnswersAsANodeDoes: every call of any scenario has the same answer, or the same error,
// word for word, at the same time.
func TestAnswersAsANodeDoes(t *testing.T) {
	dir := t.TempDir()
	var run int
	rapid.Check(t, func(r *rapid.T) {
		run++
		drawScenario(r).compare(t, r, fmt.Sprintf("%s/%d", dir, run))
	})
}

// compare runs the scenario on a node and on a manager. It returns their answers.
func (s *scenario) compare(t *testing.T, r interface{ Fatalf(string, ...any) }, dir string) (answers []string) {
	var want, got []string
	synctest.Test(t, func(t *testing.T) { want = s.run(nodeCoordinator{openNode(t, dir)}) })
	var broken error
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		m.Service("mail", func(context.Context, txntest.Call) (txn.Vote, error) { return 0, errAway })
		got = s.run(m)
		broken = m.CheckInvariants()
	})
	if broken != nil {
		r.Fatalf("after\n%s\n%v", strings.Join(s.told, "\n"), broken)
	}
	for i := range want {
		if diff := cmp.Diff(clusterless(want[i]), clusterless(got[i])); diff != "" {
			r.Fatalf("after\n%s\n(-node +txntest):\n%s", strings.Join(s.told[:i+1], "\n"), diff)
		}
	}
	return want
}

// clusterless cuts the names of branches at their participants, which begin with the
// cluster's.
func clusterless(s string) string {
	for {
		before, rest, found := strings.Cut(s, txn.XIDPrefix)
		if !found {
			return s
		}
		_, after, _ := strings.Cut(rest, "}")
		s = before + "}" + after
	}
}

func openNode(t *testing.T, dir string) *node.Node {
	t.Helper()
	n, err := node.Open(t.Context(), node.Config{
		DataDir: dir, Interval: txntest.Interval, Logger: slog.New(slog.DiscardHandler),
		Participants: map[string]participant.Participant{"bank": unreachableParticipant{}, "stock": unreachableParticipant{}, "mail": service{}},
		Recovery:     recovery.Config{SweepEvery: 24 * time.Hour},
		OnFailure:    func(err error) { t.Errorf("the log failed: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}
