package recoverylog

import (
	"context"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Report implements [recovery.Log]: completion reports and votes of one transaction are proposed
// together.
func (l *Log) Report(ctx context.Context, id txn.ID, rs []recovery.BranchResult) error {
	failpoint.Hit("finding received")
	for _, c := range l.reportCommands(id, rs) {
		res, err := l.Queue.Propose(ctx, c)
		failpoint.Hit("finding applied")
		if err != nil {
			return err
		}
		if res.Code != machine.OK && res.Code != machine.Decided {
			// The log has another result already: another caller has reported otherwise. Work that
			// is left, if any, is requested again.
			l.Logger.Warn("branch result rejected by the state machine", "tx", id, "finding", fmt.Sprintf("%T", c), "code", res.Code)
		}
	}
	return nil
}

// reportCommands returns the commands that make reports durable.
func (l *Log) reportCommands(id txn.ID, rs []recovery.BranchResult) (commands []machine.Command) {
	var acks []txn.CompletionReport
	votes := machine.Vote{ID: id}
	for _, r := range rs {
		switch {
		case r.State != 0:
			acks = append(acks, txn.CompletionReport{Branch: r.Branch, State: r.State})
		case r.Vote == txn.VoteEndedByApplication:
			commands = append(commands, machine.EndedByApplication{ID: id, Branch: r.Branch, Reason: l.voteReason(id, r)})
		case r.Vote != 0:
			votes.Votes = append(votes.Votes, txn.BranchVote{Branch: r.Branch, Vote: r.Vote})
			if r.Vote == txn.VoteNo && votes.Reason == "" { // the first one decides
				votes.Reason = l.voteReason(id, r)
			}
		default:
			commands = append(commands, machine.ReportHeuristic{ID: id, Branch: r.Branch, Heuristic: r.Heuristic, Detail: textutil.Limit(r.Detail, txn.MaxReason)})
		}
	}
	if len(acks) > 0 {
		commands = append(commands, machine.ReportCompletion{ID: id, Reports: acks})
	}
	if len(votes.Votes) > 0 {
		commands = append(commands, votes)
	}
	return commands
}

// voteReason returns why a branch voted no, with the name of its participant.
func (l *Log) voteReason(id txn.ID, r recovery.BranchResult) string {
	return textutil.Limit(strings.TrimSuffix(l.participantName(id, r.Branch)+": "+r.Detail, ": "), txn.MaxReason)
}

// participantName names the participant of a branch, for operators.
func (l *Log) participantName(id txn.ID, b txn.BranchID) string {
	var t machine.Transaction
	l.View(func(m *machine.Machine) { t, _ = m.Get(id) })
	if b < 1 || int(b) > len(t.Branches) {
		return b.String()
	}
	return t.Branches[b-1].Participant
}
