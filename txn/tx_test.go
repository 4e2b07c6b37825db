package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// fakeManager is a coordinator and resources with scripted answers; it records the calls.
type fakeManager struct {
	mu    sync.Mutex
	trace []string

	// Answers: of the coordinator by the call, of resources by participant and call.
	errs    map[string]error
	votes   map[string]txn.Vote
	cause   txn.Cause
	timeout time.Duration
	info    txn.Info // the answer to get; none while its ID is zero
	later   txn.Info // the answer to wait, unless its state is zero: then that is info
	n       int
	asked   txn.Options // of the last begin
}

func (s *fakeManager) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

func (s *fakeManager) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(inOrder(s.trace), "\n")
}

// inOrder sorts by name what the resources do concurrently.
func inOrder(trace []string) []string {
	step := func(line string) int {
		name, what, _ := strings.Cut(line, " ")
		switch {
		case name != "bank" && name != "shop":
			return 0
		case what == "prepares":
			return 1
		}
		return 2
	}
	sorted := slices.Clone(trace)
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && step(sorted[j]) == step(sorted[i]) {
			j++
		}
		if step(sorted[i]) != 0 {
			slices.SortStableFunc(sorted[i:j], func(a, b string) int { return strings.Compare(a[:4], b[:4]) })
		}
		i = j
	}
	return sorted
}

var theID = txn.NewID(time.UnixMilli(1), [9]byte{1})

func (s *fakeManager) Begin(_ context.Context, o txn.Options) (txn.BeginResult, error) {
	s.tell("begin %s", o.Name)
	s.asked = o
	d := s.timeout
	if d == 0 {
		d = time.Hour
	}
	return txn.BeginResult{ID: theID, Timeout: d}, s.errs["begin"]
}

func (s *fakeManager) Enlist(_ context.Context, _ txn.ID, e txn.Enlistment) (txn.Branch, error) {
	s.tell("enlist %s %s", e.Participant, e.SessionRef)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return txn.Branch{ID: txn.BranchID(s.n), Participant: e.Participant}, s.errs["enlist"]
}

func (s *fakeManager) Commit(_ context.Context, _ txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	var votes []string
	for _, v := range c.Votes {
		votes = append(votes, fmt.Sprintf("%v=%v", v.Branch, v.Vote))
	}
	s.tell("commit %s own=%v", strings.Join(votes, " "), c.ClientCompletes)
	return txn.Outcome{State: txn.Committing}, s.errs["commit"]
}

func (s *fakeManager) Vote(ctx context.Context, _ txn.ID, b txn.Votes) (txn.Outcome, error) {
	var votes []string
	for _, v := range b.Votes {
		votes = append(votes, fmt.Sprintf("%v=%v", v.Branch, v.Vote))
	}
	s.tell("vote %s own=%v: %s", strings.Join(votes, " "), b.ClientCompletes, b.Reason)
	if err := errors.Join(ctx.Err(), s.errs["vote"]); err != nil {
		return txn.Outcome{}, err
	}
	if slices.ContainsFunc(b.Votes, func(v txn.BranchVote) bool { return v.Vote == txn.VoteNo }) {
		return txn.Outcome{State: txn.RollingBack, Cause: s.recorded(txn.CauseVoteNo)}, nil
	}
	return txn.Outcome{State: txn.Active}, nil
}

// recorded is the cause that the coordinator has recorded.
func (s *fakeManager) recorded(c txn.Cause) txn.Cause {
	if s.cause != 0 {
		return s.cause
	}
	return c
}

func (s *fakeManager) Delegate(ctx context.Context, _ txn.ID, b txn.BranchID) (txn.Outcome, error) {
	s.tell("delegate %v", b)
	return txn.Outcome{State: txn.Preparing}, errors.Join(ctx.Err(), s.errs["delegate"])
}

func (s *fakeManager) Rollback(ctx context.Context, _ txn.ID, reason string) (txn.Outcome, error) {
	s.tell("rollback: %s", reason)
	if ctx.Err() != nil {
		return txn.Outcome{}, ctx.Err()
	}
	if err := s.errs["rollback"]; err != nil {
		return txn.Outcome{}, err
	}
	return txn.Outcome{State: txn.RollingBack, Cause: s.recorded(txn.CauseClient)}, nil
}

func (s *fakeManager) ReportCompletion(_ context.Context, _ txn.ID, acks ...txn.CompletionReport) error {
	var done []string
	for _, a := range acks {
		done = append(done, fmt.Sprintf("%v=%v", a.Branch, a.State))
	}
	s.tell("done %s", strings.Join(done, " "))
	return s.errs["done"]
}

func (s *fakeManager) Extend(_ context.Context, _ txn.ID, d time.Duration) (txn.Outcome, error) {
	s.tell("extend %v", d)
	return txn.Outcome{State: txn.Active}, s.errs["extend"]
}

func (s *fakeManager) Get(ctx context.Context, _ txn.ID) (txn.Info, error) {
	if s.info.ID.IsZero() {
		return txn.Info{}, &txn.Error{Err: txn.ErrUnavailable}
	}
	return s.info, ctx.Err()
}

func (s *fakeManager) Wait(_ context.Context, _ txn.ID, goal txn.Goal) (txn.Info, error) {
	s.tell("wait")
	if s.later.State != 0 {
		return s.later, nil
	}
	if goal != txn.UntilDecided || !s.info.State.Decided() {
		return s.info, txn.ErrWaitTimeout
	}
	return s.info, nil
}

type fakeResource struct {
	s    *fakeManager
	name string
}

func (p *fakeResource) Prepare(ctx context.Context) (txn.Vote, error) {
	p.s.tell("%s prepares", p.name)
	vote, ok := p.s.votes[p.name]
	if !ok {
		vote = txn.VotePrepared
	}
	return vote, p.s.errs[p.name+" prepares"]
}

func (p *fakeResource) Commit(ctx context.Context) error {
	p.s.tell("%s commits", p.name)
	return errors.Join(ctx.Err(), p.s.errs[p.name+" commits"])
}

func (p *fakeResource) Rollback(ctx context.Context) error {
	p.s.tell("%s rolls back", p.name)
	return errors.Join(ctx.Err(), p.s.errs[p.name+" rolls back"])
}

func (p *fakeResource) Release() { p.s.tell("%s releases", p.name) }

func (s *fakeManager) join(ctx context.Context, tx *txn.Tx, name string) (*fakeResource, error) {
	return txn.Join(ctx, tx, name, func(ctx context.Context, enlist txn.EnlistFunc) (*fakeResource, error) {
		_, err := enlist(ctx, "session-of-"+name, nil)
		return &fakeResource{s, name}, err
	})
}

var errOut = errors.New("out of order")

func TestEndOfATransaction(t *testing.T) {
	const joined = "begin order\nenlist bank session-of-bank\nenlist shop session-of-shop\n"
	for _, c := range []struct {
		name  string
		stage *fakeManager
		want  []error // nil: commit succeeds
		not   []error
		trace string
	}{
		{
			name:  "all vote yes",
			stage: &fakeManager{},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\n" +
				"bank commits\nbank releases\nshop commits\nshop releases\ndone b1=committed b2=committed",
		},
		{
			name:  "a read-only branch takes no part in phase two",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteReadOnly}},
			trace: "bank prepares\nshop prepares\ncommit b1=read-only b2=prepared own=true\n" +
				"bank releases\nshop commits\nshop releases\ndone b2=committed",
		},
		{
			name:  "all are read-only",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteReadOnly, "shop": txn.VoteReadOnly}},
			trace: "bank prepares\nshop prepares\ncommit b1=read-only b2=read-only own=false\nbank releases\nshop releases",
		},
		{
			name:  "a session that cannot commit leaves its branch to the coordinator",
			stage: &fakeManager{errs: map[string]error{"bank commits": errOut}},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\n" +
				"bank commits\nbank releases\nshop commits\nshop releases\ndone b2=committed",
		},
		{
			name:  "a report that is lost does not undo the decision",
			stage: &fakeManager{errs: map[string]error{"done": errOut}},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\n" +
				"bank commits\nbank releases\nshop commits\nshop releases\ndone b1=committed b2=committed",
		},
		{
			name:  "the last votes no",
			stage: &fakeManager{votes: map[string]txn.Vote{"shop": txn.VoteNo}, errs: map[string]error{"shop prepares": errOut}},
			want:  []error{txn.ErrRolledBack, txn.ErrVotedNo, errOut},
			trace: "bank prepares\nshop prepares\nbank rolls back\nbank releases\nshop releases\n" +
				"vote b2=no own=false: shop: out of order\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name:  "no without a reason is no",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteNo}},
			want:  []error{txn.ErrRolledBack, txn.ErrVotedNo},
			trace: "bank prepares\nshop prepares\nbank releases\nshop rolls back\nshop releases\nvote b1=no own=false: bank: voted no\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name:  "no vote at all is a rollback by the client",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": 0}},
			want:  []error{txn.ErrRolledBack},
			not:   []error{txn.ErrVotedNo},
			trace: "bank prepares\nshop prepares\nbank rolls back\nbank releases\nshop rolls back\nshop releases\nrollback: bank: voted none\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name: "a prepare of unknown end is undone, and left to the coordinator when that fails",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": 0}, errs: map[string]error{
				"bank prepares": errOut, "bank rolls back": errOut,
			}},
			want:  []error{txn.ErrRolledBack, errOut},
			not:   []error{txn.ErrVotedNo},
			trace: "bank prepares\nshop prepares\nbank rolls back\nbank releases\nshop rolls back\nshop releases\nrollback: bank: out of order\ndone b2=rolled-back",
		},
		{
			name: "votes that were not given away need no coordinator to be taken back",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteNo}, errs: map[string]error{
				"bank prepares": errOut, "vote": txn.ErrUnavailable,
			}},
			want:  []error{txn.ErrRolledBack, errOut},
			not:   []error{txn.ErrInDoubt, txn.ErrVotedNo}, // the coordinator has recorded no cause
			trace: "bank prepares\nshop prepares\nbank releases\nshop rolls back\nshop releases\nvote b1=no own=false: bank: out of order",
		},
		{
			name: "somebody else decided to commit meanwhile",
			stage: &fakeManager{votes: map[string]txn.Vote{"bank": txn.VoteNo}, errs: map[string]error{
				"bank prepares": errOut, "vote": &txn.Error{Err: txn.ErrConflict},
			}},
			want:  []error{txn.ErrConflict, errOut},
			not:   []error{txn.ErrRolledBack},
			trace: "bank prepares\nshop prepares\nbank releases\nshop rolls back\nshop releases\nvote b1=no own=false: bank: out of order",
		},
		{
			name:  "the coordinator decided otherwise",
			stage: &fakeManager{errs: map[string]error{"commit": &txn.Error{Err: txn.ErrRolledBack, Cause: txn.CauseTimeout}}},
			want:  []error{txn.ErrRolledBack, txn.ErrTimedOut},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\n" +
				"bank rolls back\nbank releases\nshop rolls back\nshop releases\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name:  "the coordinator refuses the votes: it decides first",
			stage: &fakeManager{cause: txn.CauseClient, errs: map[string]error{"commit": &txn.Error{Err: txn.ErrConflict}}},
			want:  []error{txn.ErrRolledBack, txn.ErrConflict},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nrollback: : conflict\n" +
				"bank rolls back\nbank releases\nshop rolls back\nshop releases\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name:  "the coordinator refuses the votes and is gone",
			stage: &fakeManager{errs: map[string]error{"commit": &txn.Error{Err: txn.ErrNotActive}, "rollback": txn.ErrUnavailable}},
			want:  []error{txn.ErrInDoubt, txn.ErrNotActive, txn.ErrUnavailable},
			not:   []error{txn.ErrRolledBack},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nrollback: : transaction is not active\nbank releases\nshop releases",
		},
		{
			name:  "the answer of the coordinator is lost: nothing is touched",
			stage: &fakeManager{errs: map[string]error{"commit": errOut}},
			want:  []error{txn.ErrInDoubt, errOut},
			not:   []error{txn.ErrRolledBack},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nbank releases\nshop releases",
		},
		{
			name:  "the coordinator could not take the votes: it decides first",
			stage: &fakeManager{cause: txn.CauseClient, errs: map[string]error{"commit": &txn.Error{Err: txn.ErrUnavailable}}},
			want:  []error{txn.ErrRolledBack, txn.ErrUnavailable},
			not:   []error{txn.ErrInDoubt},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nrollback: : unavailable\n" +
				"bank rolls back\nbank releases\nshop rolls back\nshop releases\ndone b1=rolled-back b2=rolled-back",
		},
		{
			name: "the coordinator could not take the votes, but somebody else's",
			stage: &fakeManager{errs: map[string]error{
				"commit": &txn.Error{Err: txn.ErrUnavailable}, "rollback": &txn.Error{Err: txn.ErrConflict},
			}},
			want:  []error{txn.ErrInDoubt, txn.ErrConflict},
			not:   []error{txn.ErrRolledBack},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nrollback: : unavailable\nbank releases\nshop releases",
		},
		{
			name:  "doubt beats unavailable: the votes may have arrived",
			stage: &fakeManager{errs: map[string]error{"commit": &txn.Error{Err: errors.Join(txn.ErrInDoubt, txn.ErrUnavailable)}}},
			want:  []error{txn.ErrInDoubt},
			not:   []error{txn.ErrRolledBack},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nbank releases\nshop releases",
		},
		{
			name:  "the coordinator itself is in doubt",
			stage: &fakeManager{errs: map[string]error{"commit": &txn.Error{ID: theID, Err: txn.ErrInDoubt}}},
			want:  []error{txn.ErrInDoubt},
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nbank releases\nshop releases",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.stage
			err := txn.Run(t.Context(), s, txn.Options{Name: "order"}, func(ctx context.Context, tx *txn.Tx) error {
				_, errA := s.join(ctx, tx, "bank")
				_, errB := s.join(ctx, tx, "shop")
				return errors.Join(errA, errB)
			})
			checkError(t, err, c.want, c.not)
			if diff := cmp.Diff(strings.Split(joined+c.trace, "\n"), strings.Split(s.told(), "\n")); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

func checkError(t *testing.T, err error, want, not []error) {
	t.Helper()
	if (err == nil) != (want == nil) {
		t.Errorf("error: %v, want %v", err, want)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %q is not %q", err, w)
		}
	}
	for _, n := range not {
		if errors.Is(err, n) {
			t.Errorf("error %q is %q", err, n)
		}
	}
	var e *txn.Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("error %q is no *txn.Error", err)
	}
}

func TestEndedTransactionTakesNothingMore(t *testing.T) {
	for name, c := range map[string]struct {
		end           func(context.Context, *txn.Tx) error
		rollbackAgain error
		wantState     txn.State
	}{
		"after commit":   {end: func(ctx context.Context, tx *txn.Tx) error { return tx.Commit(ctx) }, rollbackAgain: txn.ErrNotActive, wantState: txn.Committing},
		"after rollback": {end: func(ctx context.Context, tx *txn.Tx) error { return tx.Rollback(ctx, "no") }, wantState: txn.RollingBack},
	} {
		t.Run(name, func(t *testing.T) {
			s, ctx := &fakeManager{}, t.Context()
			tx, err := txn.Start(ctx, s, txn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.join(ctx, tx, "bank"); err != nil {
				t.Fatal(err)
			}
			if err := c.end(ctx, tx); err != nil {
				t.Fatal(err)
			}
			before := s.told()
			if err := tx.Rollback(ctx, "again"); !errors.Is(err, c.rollbackAgain) {
				t.Errorf("rollback: %v, want %v", err, c.rollbackAgain)
			}
			err = tx.Commit(ctx)
			var e *txn.Error
			if !errors.As(err, &e) || e.Err != txn.ErrNotActive || e.State != c.wantState || e.ID != theID {
				t.Errorf("commit: %v", err)
			}
			if _, err := s.join(ctx, tx, "bank"); !errors.Is(err, txn.ErrNotActive) {
				t.Errorf("join: %v", err)
			}
			if s.told() != before {
				t.Errorf("something was done:\n%s", s.told()[len(before):])
			}
		})
	}
}

func TestReasonIsCutToWhatTheLogTakes(t *testing.T) {
	s := &fakeManager{errs: map[string]error{"bank prepares": errors.New(strings.Repeat("é", txn.MaxReason))}}
	_ = txn.Run(t.Context(), s, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := s.join(ctx, tx, "bank")
		return err
	})
	for _, line := range s.trace {
		if reason, ok := strings.CutPrefix(line, "rollback: "); ok {
			if len(reason) > txn.MaxReason || !strings.HasSuffix(reason, "é...") {
				t.Errorf("reason of %d bytes: %s", len(reason), reason)
			}
			return
		}
	}
	t.Errorf("no rollback:\n%s", s.told())
}
