package repair

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cell"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// printExplanation prints the explanation of a transaction in doubt.
func printExplanation(a *cli.App, e admin.Explanation) error {
	e = normalizeExplanation(e)
	var p output.Page
	t := e.Transaction
	p.Title(t.ID.String(), t.Name, t.State.String(), heuristicLabel(t.Heuristic))
	p.Row(output.InfoMeaning(t))
	for _, line := range e.Summary {
		p.Row(line)
	}
	for i, q := range e.Branches {
		if i < len(t.Branches) {
			explainBranch(&p, t, t.Branches[i], q)
		}
	}
	explainActions(&p, t.ID, e.Actions)
	if len(e.Audit) > 0 {
		p.Title("Operators' actions")
		for _, r := range e.Audit {
			p.Row(strings.TrimSuffix(r.Subject+": "+r.Reason, ": "), cell.Time(r.Time), r.By, r.Action)
		}
	}
	return a.Print.Print(output.Document{Value: withCommands(e), IDs: []string{t.ID.String()}, Page: p})
}

// normalizeExplanation replaces nil lists by empty ones, as programs expect.
func normalizeExplanation(e admin.Explanation) admin.Explanation {
	e.Transaction = output.Normalize(e.Transaction)
	if e.Summary == nil {
		e.Summary = []string{}
	}
	if e.Branches == nil {
		e.Branches = []admin.BranchProbe{}
	}
	for i := range e.Branches {
		if e.Branches[i].Attempts == nil {
			e.Branches[i].Attempts = []admin.CallAttempt{}
		}
	}
	if e.Actions == nil {
		e.Actions = []admin.Action{}
	}
	if e.Audit == nil {
		e.Audit = []admin.AuditRecord{}
	}
	return e
}

func heuristicLabel(h txn.Heuristic) string {
	if h == 0 {
		return ""
	}
	return "heuristic: " + h.String()
}

func explainBranch(p *output.Page, t txn.Info, b txn.BranchInfo, q admin.BranchProbe) {
	state := heuristicLabel(b.Heuristic)
	if state == "" {
		state = b.State.String()
	}
	p.Title(b.Name+" at "+b.Participant, "("+b.Kind+")", state)
	p.Row(loggedState(t, b), "decided")
	if b.Detail != "" {
		p.Row(b.Detail, "recorded")
	}
	p.Row(reportedState(b, q), "reported")
	for i, lock := range q.Locks {
		p.Row(lock, firstLabel(i, "locks"))
	}
	for i, waiter := range q.Waiters {
		p.Row(waiter, firstLabel(i, "waiting for it"))
	}
	if q.EarlierAttempts > 0 {
		p.Row(output.Plural(q.EarlierAttempts, "earlier attempt", "earlier attempts"), "attempts")
	}
	for i, line := range attemptLines(q.Attempts) {
		p.Row(line, firstLabel(i+q.EarlierAttempts, "attempts"))
	}
	if b.NextTry > 0 && !b.State.Finished() {
		p.Row("in "+cell.Duration(b.NextTry), "next attempt")
	}
	p.Row(b.XID, "xid")
}

// firstLabel labels the first of several rows.
func firstLabel(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// loggedState describes the state of a branch in the log.
func loggedState(t txn.Info, b txn.BranchInfo) string {
	said := "it has not voted"
	switch {
	case b.Vote == txn.VoteEndedByApplication:
		said = "statements of the application ended it"
	case b.Vote == txn.VoteDelegated:
		said = "the decision was delegated to it"
	case b.Vote != 0:
		said = "it voted " + b.Vote.String()
	}
	switch {
	case !t.State.Decided():
		return "nothing yet; " + said
	case t.State.Commits():
		return "commit; " + said
	}
	return "rollback; " + said
}

// reportedState describes the answer of the participant. For a branch that ended as decided, the
// log keeps nothing by which the participant could be asked for a commit record.
func reportedState(b txn.BranchInfo, q admin.BranchProbe) string {
	if q.Error != "" {
		return "the participant cannot be asked: " + q.Error
	}
	said := "it has not ended"
	switch {
	case q.Prepared && q.Since.IsZero():
		said = "it is prepared"
	case q.Prepared:
		said = fmt.Sprintf("it is prepared, since %s (%s)", cell.Time(q.Since), cell.Age(q.Since))
	case q.Outcome == txn.HeuristicHazard.String() && b.State.Finished() && b.Heuristic == 0:
		return "it is no longer prepared"
	case q.Outcome == txn.HeuristicHazard.String():
		said = "its end cannot be determined"
	case q.Outcome != "":
		said = "it ended " + q.Outcome
	}
	detail := q.Detail
	if q.Prepared { // that was printed already
		detail = strings.TrimPrefix(strings.TrimPrefix(detail, "it is prepared"), "; ")
	}
	if detail == "" {
		return said
	}
	return said + ": " + detail
}

// attemptLines describes the attempts; equal consecutive ones are one line.
func attemptLines(all []admin.CallAttempt) (lines []string) {
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Call == all[i].Call && all[end].Result == all[i].Result {
			end++
		}
		one := all[i]
		text := cell.Clock(one.At) + " " + one.Call
		if n := end - i; n > 1 {
			text += fmt.Sprintf(", %d times until %s", n, cell.Clock(all[end-1].At))
		} else {
			text += fmt.Sprintf(", %v", time.Duration(one.Took).Round(time.Millisecond))
		}
		if one.Failed {
			text += ", failed"
		}
		lines = append(lines, text+": "+one.Result)
		i = end
	}
	return lines
}

// explainActions lists the actions that are possible, and why the others are not.
func explainActions(p *output.Page, id txn.ID, choices []admin.Action) {
	for _, allowed := range []bool{true, false} {
		begun := false
		for _, c := range choices {
			if c.Allowed != allowed {
				continue
			}
			if !begun && allowed {
				p.Title("Possible actions")
			} else if !begun {
				p.Title("Refused actions")
			}
			begun = true
			p.Row(c.Why, c.Name)
			if command := actionCommand(c, id); command != "" {
				p.Paste(command)
			}
		}
	}
}
