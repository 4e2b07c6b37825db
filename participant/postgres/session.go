package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Session identifies the database session in which a branch's work is done. Its
// text form is what the application gives as [txn.Enlistment.Session]:
//
//	pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=7710685338195144677
//
// followed, when Recovered is known, by " recovered=" and that time. A query that
// gives it in any language is in docs/start.md.
type Session struct {
	PID    uint32    // of the backend: pg_backend_pid()
	Start  time.Time // of the backend, to the microsecond: backend_start
	XID    uint64    // of the transaction: pg_current_xact_id()
	System uint64    // of the server and its standbys: pg_control_system()
	// Recovered tells, to the microsecond, the lives of a server apart between
	// which a transaction number may be given out twice: stats_reset of
	// pg_stat_archiver, which is another time after a crash, a failover or a
	// restore, and the same after an orderly restart. Zero: it was not asked for.
	Recovered time.Time
}

const sessionTime = "2006-01-02T15:04:05.000000Z"

// String gives the text form.
func (s Session) String() string {
	text := fmt.Sprintf("pid=%d start=%s xid=%d system=%d", s.PID, s.Start.UTC().Format(sessionTime), s.XID, s.System)
	if !s.Recovered.IsZero() {
		text += " recovered=" + s.Recovered.UTC().Format(sessionTime)
	}
	return text
}

// ParseSession reads the text form, and no other text. The error is
// [txn.ErrInvalid].
func ParseSession(text string) (Session, error) {
	var s Session
	var errs [5]error
	words := strings.Split(text, " ")
	if len(text) <= txn.MaxSession && (len(words) == 4 || len(words) == 5) {
		s.PID, errs[0] = number[uint32](words[0], "pid=", 32)
		s.Start, errs[1] = time.Parse("start="+sessionTime, words[1])
		s.XID, errs[2] = number[uint64](words[2], "xid=", 64)
		s.System, errs[3] = number[uint64](words[3], "system=", 64)
		if len(words) == 5 {
			s.Recovered, errs[4] = time.Parse("recovered="+sessionTime, words[4])
		}
	}
	if errs != [5]error{} || s.String() != text || s.PID == 0 || s.XID == 0 {
		return Session{}, fmt.Errorf("%w: session %q: want a text like %q", txn.ErrInvalid, clip(text), Session{PID: 1, XID: 1})
	}
	return s, nil
}

func number[T uint32 | uint64](word, prefix string, bits int) (T, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(word, prefix), 10, bits)
	return T(n), err
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
