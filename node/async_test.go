package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// awaitAsync makes an asynchronous call and waits for its answer.
func awaitAsync[R any](call func(answer func(R, error))) (R, error) {
	type answer struct {
		r   R
		err error
	}
	answers := make(chan answer, 2)
	call(func(r R, err error) { answers <- answer{r, err} })
	a := <-answers
	return a.r, a.err
}

// TestAsyncCallsAnswerAsTheOthers: with and without a goroutine a call has the same effect, the same
// result, and the same error.
func TestAsyncCallsAnswerAsTheOthers(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"shop": hangs(), "bank": hangs()}))
	waittest.Until(t, "a leader", n.isLeader)
	async := n.Async()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	entropy := byte(0)
	begin := func(ctx context.Context, o txn.Options) [2]string {
		entropy++
		o.ID = txn.NewID(time.Now(), [9]byte{entropy}) // the second begin repeats the first
		var got [2]string
		for i, call := range []func(context.Context, txn.Options) (txn.BeginResult, error){n.Begin, func(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
			return awaitAsync(func(answer func(txn.BeginResult, error)) { async.Begin(ctx, o, answer) })
		}} {
			b, err := call(ctx, o)
			b.Mark = txn.Mark{} // the present one
			got[i] = fmt.Sprintf("%+v %v", b, err)
		}
		return got
	}
	commit := func(o txn.Options, votes []txn.BranchVote, before func(txn.ID)) [2]string {
		var got [2]string
		for i, call := range []func(context.Context, txn.ID, txn.CommitRequest) (txn.Outcome, error){n.Commit, func(ctx context.Context, id txn.ID, r txn.CommitRequest) (txn.Outcome, error) {
			return awaitAsync(func(answer func(txn.Outcome, error)) { async.Commit(ctx, id, r, answer) })
		}} {
			b, err := n.Begin(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if before != nil {
				before(b.ID)
			}
			out, err := call(t.Context(), b.ID, txn.CommitRequest{Votes: votes, ClientCompletes: true})
			// Whether the branches have ended already, as the state says, is up to recovery.
			got[i] = strings.ReplaceAll(fmt.Sprintf("commits %v, %v, %v %v", out.State.Commits(), out.Cause, out.EndedByApplication, err), b.ID.String(), "ID")
		}
		return got
	}
	report := func(id txn.ID, reports ...txn.CompletionReport) [2]string {
		_, err := awaitAsync(func(answer func(struct{}, error)) {
			async.ReportCompletion(t.Context(), id, reports, func(err error) { answer(struct{}{}, err) })
		})
		return [2]string{fmt.Sprint(n.ReportCompletion(t.Context(), id, reports...)), fmt.Sprint(err)}
	}
	unknown := txn.NewID(time.Now(), [9]byte{7})
	two := txn.Options{Branches: []txn.Enlistment{{Participant: "shop"}, {Participant: "bank"}}}
	yes := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VotePrepared}}
	var committed txn.ID
	for name, got := range map[string]struct {
		got  [2]string
		want string // in both
	}{
		"begin":                            {begin(t.Context(), two), "<nil>"},
		"begin, refused by the options":    {begin(t.Context(), txn.Options{Name: strings.Repeat("n", 200)}), "invalid"},
		"begin, refused by the log":        {begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "unregistered"}}}), "unregistered"},
		"begin, no time left":              {begin(ended, txn.Options{}), "unavailable"},
		"commit":                           {commit(two, yes, func(id txn.ID) { committed = id }), "commits true"},
		"commit, with a no":                {commit(two, []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}, nil), "rolled back"},
		"commit, rolled back for reasons":  {commit(txn.Options{}, nil, func(id txn.ID) { _, _ = n.Rollback(t.Context(), id, "no stock") }), "no stock"},
		"commit, ended by application":     {commit(two, []txn.BranchVote{{Branch: 1, Vote: txn.VoteEndedByApplication}}, nil), "ended"},
		"report":                           {report(committed, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}), "<nil>"},
		"report of nothing":                {report(txn.ID{}), "no transaction id given"},
		"report on an unknown transaction": {report(unknown, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}), "not found"},
	} {
		if got.got[0] != got.got[1] || !strings.Contains(got.got[0], got.want) {
			t.Errorf("%s: %s\nwithout a goroutine: %s\nwant %q", name, got.got[0], got.got[1], got.want)
		}
	}
}
