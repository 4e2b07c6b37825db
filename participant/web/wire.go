package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
)

// The headers of the contract. All but the last two are of requests.
const (
	HeaderTransaction = "Txmgr-Transaction-Id"
	HeaderBranch      = "Txmgr-Branch-Id"
	HeaderXID         = "Txmgr-Xid"
	HeaderPhase       = "Txmgr-Phase"
	HeaderDeadline    = "Txmgr-Deadline" // remaining milliseconds, on prepare
	HeaderAttempt     = "Txmgr-Attempt"  // counts from 1
	HeaderSignature   = "Txmgr-Signature"
	HeaderIdempotency = "Idempotency-Key"

	HeaderVote    = "Txmgr-Vote"    // response to prepare: prepared, read-only, no, ended-by-application
	HeaderOutcome = "Txmgr-Outcome" // response to commit and rollback: committed, rolled-back, never-prepared, unknown, ended-by-application
)

// The phases, as in [HeaderPhase] and at the end of the URLs.
const (
	phasePrepare  = "prepare"
	phaseCommit   = "commit"
	phaseRollback = "rollback"
)

// The values of [HeaderVote] and [HeaderOutcome].
const (
	votePrepared           = "prepared"
	voteReadOnly           = "read-only"
	voteNo                 = "no"
	outcomeCommitted       = "committed"
	outcomeRolledBack      = "rolled-back"
	outcomeNever           = "never-prepared"
	outcomeUnknown         = "unknown"
	wordEndedByApplication = "ended-by-application" // of both
)

// maxReason is how much of a response's body is kept, in bytes.
const maxReason = 512

// idempotencyKey is an item of a structured header: a string in quotes.
func idempotencyKey(tx txn.ID, branch txn.BranchID, phase string) string {
	return `"` + tx.String() + "/" + branch.String() + "/" + phase + `"`
}

// deadlineText is the remaining time in whole milliseconds, rounded down.
func deadlineText(left time.Duration) string {
	return strconv.FormatInt(max(left.Milliseconds(), 0), 10)
}

// parseDeadline parses the remaining milliseconds.
func parseDeadline(s string) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || !digits(s) {
		return 0, fmt.Errorf("%s %q: want milliseconds, a whole number from 0", HeaderDeadline, clean(s, 64))
	}
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// clean makes a text from outside safe for errors and logs: valid UTF-8, one line, at most limit
// bytes.
func clean(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit] // bounds the work
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return textutil.Limit(strings.Join(strings.Fields(s), " "), limit)
}
