package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// Failure is an error in the form in which it is printed. It wraps the error that occurred.
type Failure struct {
	Code  txn.Code
	What  string // the action and its result
	Cause string // why
	State string // the present state
	Hint  string // the next step
	Err   error  // may be nil
}

// Error returns What and Cause in one line.
func (f *Failure) Error() string {
	if f.Cause == "" {
		return f.What
	}
	return f.What + ": " + f.Cause
}

// Unwrap returns the error behind the failure.
func (f *Failure) Unwrap() error { return f.Err }

// Usage returns the failure of a wrong call.
func Usage(next, format string, args ...any) *Failure {
	return &Failure{Code: txn.CodeUsage, What: fmt.Sprintf(format, args...), Hint: next}
}

// Explain turns any error into a failure. A [Failure] is returned as it is.
func Explain(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	// The exit code says already that the call was wrong; the details come first.
	f = &Failure{Code: txn.CodeOf(err), What: strings.TrimPrefix(err.Error(), txn.ErrInvalid.Error()+": "), Err: err}
	if f.Code == txn.CodeError && errors.Is(err, context.Canceled) {
		return &Failure{Code: CodeInterrupted, What: "interrupted", Err: err}
	}
	var e *txn.Error
	if errors.As(err, &e) {
		f.What, f.Cause = whatAndCause(e)
		f.State = stateText(e)
	}
	f.Hint = advice(f.Code, e)
	if e != nil && !e.ID.IsZero() && (errors.Is(err, txn.ErrHeuristic) || errors.Is(err, txn.ErrEndedByApplication)) {
		f.Hint = "check the data before repeating the work: txmgr indoubt explain " + e.ID.String()
	}
	if said := (*txn.Error)(nil); f.Code == txn.CodeUnavailable && e != nil && errors.As(e.Err, &said) {
		f.Hint = "try again; txmgr cluster status shows the leader" // a node has answered
	}
	return f
}

// whatAndCause splits an error about a transaction into What and Cause.
func whatAndCause(e *txn.Error) (what, cause string) {
	what = e.Op
	if !e.ID.IsZero() {
		what += " " + e.ID.String()
	}
	what = strings.TrimSpace(what)
	detail := e.Detail
	if e.Err != nil {
		sentinel, rest, _ := strings.Cut(e.Err.Error(), ": ")
		what += ": " + sentinel
		detail = strings.TrimPrefix(strings.Join([]string{rest, detail}, ": "), ": ")
		detail = strings.TrimSuffix(detail, ": ")
	}
	why := map[txn.Cause]string{
		txn.CauseClient:         "the application rolled it back",
		txn.CauseTimeout:        "its timeout expired before it was decided",
		txn.CauseVoteNo:         "a participant voted no",
		txn.CauseSessionExpired: "its client session expired",
		txn.CauseOperator:       "an operator rolled it back",
	}[e.Cause]
	switch {
	case why == "", e.Cause == txn.CauseVoteNo && errors.Is(e, txn.ErrEndedByApplication):
		return what, detail
	case detail == "":
		return what, why
	}
	return what, why + ": " + detail
}

func stateText(e *txn.Error) string {
	if e.State == 0 {
		return ""
	}
	if e.Heuristic != 0 {
		return fmt.Sprintf("%v, heuristic %v: %s", e.State, e.Heuristic, Meaning(e.State, e.Heuristic))
	}
	if errors.Is(e, txn.ErrEndedByApplication) {
		return e.State.String() + ": the other branches are rolled back, or will be"
	}
	if e.State.Finished() && !errors.Is(e, txn.ErrRolledBack) {
		return e.State.String() // the error does not tell whether every branch ended so
	}
	return e.State.String() + ": " + StateMeaning(e.State)
}

// Meaning describes the state of a transaction, and only as far as it is known: with a heuristic
// outcome, the state is the decision and not the end of every branch.
func Meaning(s txn.State, h txn.Heuristic) string {
	switch h {
	case 0:
		return StateMeaning(s)
	case txn.HeuristicHazard:
		return "decided, but the end of a branch is unknown"
	}
	return "decided, but a branch ended otherwise"
}

// InfoMeaning is [Meaning] of a transaction, which may have a branch that was ended by statements
// of the application.
func InfoMeaning(i txn.Info) string {
	if i.EndedByApplication() && i.Heuristic == 0 && i.State.Decided() && !i.State.Commits() {
		return "decided to roll back, but statements of the application ended a branch: what came after that may be committed"
	}
	heuristic := i.Heuristic
	for _, b := range i.Branches {
		heuristic = cmp.Or(heuristic, b.Heuristic) // the data is the same after the heuristic outcome was forgotten
	}
	return Meaning(i.State, heuristic)
}

// StateMeaning describes a state to a caller that waits for it.
func StateMeaning(s txn.State) string {
	switch s {
	case txn.Active:
		return "not decided; its timeout is running"
	case txn.Preparing:
		return "not decided; the coordinator is collecting votes"
	case txn.Committing:
		return "decided to commit, and final; a participant has not acknowledged yet"
	case txn.Committed:
		return "applied on every participant"
	case txn.RollingBack:
		return "decided to roll back, and final; a participant has not acknowledged yet"
	case txn.RolledBack:
		return "nothing was applied on any participant"
	}
	return "unknown"
}

// Unreachable is the next step if no coordinator answered.
const Unreachable = "check the address (--address or TXMGR_ADDR), and that a server runs there"

// advice is the next step after an error of which only the code is known.
func advice(code txn.Code, e *txn.Error) string {
	id := "TX"
	if e != nil && !e.ID.IsZero() {
		id = e.ID.String()
	}
	switch code {
	case txn.CodeRolledBack, txn.CodeConflict:
		if id == "TX" {
			return ""
		}
		return "txmgr inspect " + id
	case txn.CodeInDoubt:
		return "ask again: txmgr inspect " + id
	case txn.CodeNotFound:
		if e != nil && strings.HasPrefix(e.Op, "token ") {
			return "txmgr token list"
		}
		return "txmgr list shows the transactions, txmgr participant list the participants; finished ones are forgotten after the retention time"
	case txn.CodeTimedOut:
		return "the transaction continues: txmgr wait " + id
	case txn.CodeUnavailable:
		return Unreachable
	case txn.CodeDenied:
		return "set --token-file or TXMGR_TOKEN; ask the operator of the coordinator for a token"
	}
	return ""
}

// Fail writes an error to Err and returns the exit code. The code of a nil error is 0.
func (p *Printer) Fail(err error) int {
	if err == nil {
		return 0
	}
	f := Explain(err)
	if p.Format.Structured() {
		_ = writeJSON(p.Err, f.object(), "") // an error of standard error has no recipient
	} else {
		f.write(p.Err, palette(p.ColorErr))
	}
	return ExitCode(f.Code)
}

type failureObject struct {
	Error failureFields `json:"error"`
}

type failureFields struct {
	Code    txn.Code `json:"code"`
	Message string   `json:"message"`
	Cause   string   `json:"cause"`
	State   string   `json:"state"`
	Hint    string   `json:"hint"`
}

func (f *Failure) object() failureObject {
	return failureObject{failureFields{Code: f.Code, Message: f.What, Cause: f.Cause, State: f.State, Hint: f.Hint}}
}

func (f *Failure) write(w io.Writer, c palette) {
	lines := []struct{ label, text string }{
		{"error: ", f.What}, {" cause: ", f.Cause}, {" state: ", f.State}, {" hint:  ", f.Hint},
	}
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		label := c.faint(l.label)
		if i == 0 {
			label = c.red(c.bold(l.label))
		}
		for n, text := range strings.Split(l.text, "\n") {
			if n > 0 {
				label = strings.Repeat(" ", len(l.label)) // a continuation line; its text must not look like a label
			}
			_, _ = fmt.Fprintln(w, label+Sanitize(text)) // an error of standard error has no recipient
		}
	}
}

// WithoutPath removes the file name from an error whose caller names the file.
func WithoutPath(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
