package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// printExplanation lays out the page that is read when something is wrong.
func (a *app) printExplanation(e txn.Explanation) error {
	e = wholeExplanation(e)
	var p output.Page
	t := e.Transaction
	p.Title(t.ID.String(), t.Name, t.State.String(), hazardMark(t.Hazard))
	p.Row(output.InfoMeaning(t))
	for _, line := range e.Story {
		p.Row(line)
	}
	for i, q := range e.Branches {
		if i < len(t.Branches) {
			explainBranch(&p, t, t.Branches[i], q)
		}
	}
	explainChoices(&p, e.Choices)
	if len(e.Audit) > 0 {
		p.Title("What people did")
		for _, r := range e.Audit {
			p.Row(strings.TrimSuffix(r.Subject+": "+r.Reason, ": "), moment(r.Time), r.By, r.Action)
		}
	}
	return a.print.Print(output.Document{Value: e, IDs: []string{t.ID.String()}, Page: p})
}

// wholeExplanation makes its lists lists, as programs want them.
func wholeExplanation(e txn.Explanation) txn.Explanation {
	e.Transaction = whole(e.Transaction)
	if e.Story == nil {
		e.Story = []string{}
	}
	if e.Branches == nil {
		e.Branches = []txn.BranchInquiry{}
	}
	for i := range e.Branches {
		if e.Branches[i].Attempts == nil {
			e.Branches[i].Attempts = []txn.Attempt{}
		}
	}
	if e.Choices == nil {
		e.Choices = []txn.Choice{}
	}
	if e.Audit == nil {
		e.Audit = []txn.AuditRecord{}
	}
	return e
}

func hazardMark(h txn.Hazard) string {
	if h == 0 {
		return ""
	}
	return "hazard: " + h.String()
}

func explainBranch(p *output.Page, t txn.Info, b txn.BranchInfo, q txn.BranchInquiry) {
	state := hazardMark(b.Hazard)
	if state == "" {
		state = b.State.String()
	}
	p.Title(b.Name+" at "+b.Participant, "("+b.Kind+")", state)
	p.Row(shouldBe(t, b), "decided")
	if b.Detail != "" {
		p.Row(b.Detail, "recorded")
	}
	p.Row(saysNow(b, q), "says now")
	for i, lock := range q.Locks {
		p.Row(lock, first(i, "locks"))
	}
	for i, waiter := range q.Waiters {
		p.Row(waiter, first(i, "waiting for it"))
	}
	if q.EarlierAttempts > 0 {
		p.Row(output.Plural(q.EarlierAttempts, "earlier one", "earlier ones"), "attempts")
	}
	for i, line := range attempts(q.Attempts) {
		p.Row(line, first(i+q.EarlierAttempts, "attempts"))
	}
	if b.NextTry > 0 && !b.State.Finished() {
		p.Row("in "+span(b.NextTry), "next attempt")
	}
	p.Row(b.XID, "named there")
}

// first labels the first of several rows.
func first(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// shouldBe says what the log knows of a branch.
func shouldBe(t txn.Info, b txn.BranchInfo) string {
	said := "it has not voted"
	switch {
	case b.Vote == txn.VoteEndedByHand:
		said = "statements of the application's own have ended it"
	case b.Vote == txn.VoteDelegated:
		said = "it was to decide by its own end"
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

// saysNow is what the participant answered. Of a branch that ended as decided the
// log keeps nothing by which it could be asked for proof.
func saysNow(b txn.BranchInfo, q txn.BranchInquiry) string {
	if q.Error != "" {
		return "it cannot be asked: " + q.Error
	}
	said := "it has not ended"
	switch {
	case q.Prepared && q.Since.IsZero():
		said = "it is prepared"
	case q.Prepared:
		said = fmt.Sprintf("it is prepared, since %s (%s)", moment(q.Since), ago(q.Since))
	case q.Ending == txn.HazardUnknown.String() && b.State.Finished() && b.Hazard == 0:
		return "it is not prepared there any more"
	case q.Ending == txn.HazardUnknown.String():
		said = "nobody can know how it ended"
	case q.Ending != "":
		said = "it ended " + q.Ending
	}
	detail := q.Detail
	if q.Prepared { // which has been said
		detail = strings.TrimPrefix(strings.TrimPrefix(detail, "it is prepared"), "; ")
	}
	if detail == "" {
		return said
	}
	return said + ": " + detail
}

// attempts tells what was tried; the same that came several times in a row, once.
func attempts(all []txn.Attempt) (lines []string) {
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Call == all[i].Call && all[end].Result == all[i].Result {
			end++
		}
		one := all[i]
		text := clock(one.At) + " " + one.Call
		if n := end - i; n > 1 {
			text += fmt.Sprintf(", %d times until %s", n, clock(all[end-1].At))
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

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000Z") }

// explainChoices tells what can be done, and why the rest cannot.
func explainChoices(p *output.Page, choices []txn.Choice) {
	for _, allowed := range []bool{true, false} {
		begun := false
		for _, c := range choices {
			if c.Allowed != allowed {
				continue
			}
			if !begun && allowed {
				p.Title("You can")
			} else if !begun {
				p.Title("You cannot")
			}
			begun = true
			p.Row(c.Why, c.Action)
			if allowed && c.Command != "" {
				p.Paste(c.Command)
			}
		}
	}
}
