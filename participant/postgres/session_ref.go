package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// SessionRef identifies the backend and the transaction that work for a branch. The application
// passes its text form as [txn.Enlistment.SessionRef]:
//
//	pid=1234 start=2026-11-21T09:30:00.123456Z xid=789 system=7710685338195144677
//
// followed by the optional fields that are known, in this order:
//
//	recovered=2026-11-01T00:00:00.000001Z timeline=00000001 written=0/3000068 started=2026-11-01T00:00:00.000001Z replayed=0/2000060 table=16384.16390
//
// docs/start.md has a query that returns it, for any language.
type SessionRef struct {
	PID    uint32    // of the backend: pg_backend_pid()
	Start  time.Time // of the backend, to the microsecond: backend_start
	XID    uint64    // of the transaction: pg_current_xact_id()
	System uint64    // of the server and its standbys: pg_control_system()
	// Recovered identifies, to the microsecond, the lifetime of the server: a transaction number
	// may be assigned again in the next one. It is stats_reset of pg_stat_archiver, which
	// changes at a crash, a failover or a restore, and stays the same over an orderly restart.
	// Resetting these statistics changes it, too. Zero: it was not queried.
	Recovered time.Time
	// Timeline is the one that the server writes: the first eight hexadecimal digits of
	// pg_walfile_name(pg_current_wal_lsn()). A failover or a restore begins another, on
	// which a transaction number may be assigned again. Zero: it was not queried.
	Timeline uint32
	// Written is the place in the write-ahead log (LSN) after a record that has XID, as
	// pg_logical_emit_message returns it. A server whose history has that record does not
	// assign XID again. The record is written without waiting for the disk: until a later one is
	// on disk, a crash may lose it, and other records get its place. Zero: none was written, or
	// Timeline is not known.
	Written uint64
	// Started is when the postmaster was started: pg_postmaster_start_time(), to the
	// microsecond. Zero: it was not queried.
	Started time.Time
	// Replayed is how far the server's last recovery came: pg_last_wal_replay_lsn(). Each
	// recovery under one postmaster ends further on, so a server with the same Replayed and
	// Started has not recovered since, even if its statistics were reset. Zero: nothing was
	// recovered, or Started is not known.
	Replayed uint64
	// Table identifies the marker table in which the branch has written its row: the OIDs of the
	// database and of the table. Zero: it writes no marker row.
	Table markertable.ID
}

// bounded leaves out the fields that matter least, Started and Replayed, if the text form is too
// long for an enlistment, which it is only with very large numbers.
func (s SessionRef) bounded() SessionRef {
	if len(s.String()) > txn.MaxSessionRef {
		s.Started, s.Replayed = time.Time{}, 0
	}
	return s
}

// hasMarker reports whether the branch writes a marker row.
func (s SessionRef) hasMarker() bool { return s.Table != markertable.ID{} }

const sessionTimeFormat = "2006-01-02T15:04:05.000000Z"

// String returns the text form.
func (s SessionRef) String() string {
	text := fmt.Sprintf("pid=%d start=%s xid=%d system=%d", s.PID, s.Start.UTC().Format(sessionTimeFormat), s.XID, s.System)
	if !s.Recovered.IsZero() {
		text += " recovered=" + s.Recovered.UTC().Format(sessionTimeFormat)
	}
	if s.Timeline != 0 {
		text += fmt.Sprintf(" timeline=%08X", s.Timeline)
	}
	if s.Written != 0 {
		text += " written=" + lsn(s.Written).String()
	}
	if !s.Started.IsZero() {
		text += " started=" + s.Started.UTC().Format(sessionTimeFormat)
	}
	if s.Replayed != 0 {
		text += " replayed=" + lsn(s.Replayed).String()
	}
	if s.hasMarker() {
		text += " table=" + s.Table.String()
	}
	return text
}

// ParseSessionRef parses exactly what String returns. The error is [txn.ErrInvalid].
func ParseSessionRef(text string) (SessionRef, error) {
	var s SessionRef
	var errs [5]error
	words := strings.Split(text, " ")
	if len(text) <= txn.MaxSessionRef && 4 <= len(words) && len(words) <= 10 {
		s.PID, errs[0] = number[uint32](words[0], "pid=", 10, 32)
		s.Start, errs[1] = time.Parse("start="+sessionTimeFormat, words[1])
		s.XID, errs[2] = number[uint64](words[2], "xid=", 10, 64)
		s.System, errs[3] = number[uint64](words[3], "system=", 10, 64)
		errs[4] = s.parseOptional(words[4:])
	}
	if errs != [5]error{} || s.String() != text || s.PID == 0 || s.XID == 0 || s.Written != 0 && s.Timeline == 0 || s.Replayed != 0 && s.Started.IsZero() {
		return SessionRef{}, fmt.Errorf("%w: session reference %q: want a text like %q", txn.ErrInvalid, excerpt.Of(text), SessionRef{PID: 1, XID: 1})
	}
	return s, nil
}

// parseOptional parses the optional fields. Their order, and that each occurs once, is checked by
// formatting the reference again.
func (s *SessionRef) parseOptional(words []string) (err error) {
	for _, word := range words {
		var place lsn
		switch key, value, _ := strings.Cut(word, "="); key {
		case "recovered":
			s.Recovered, err = time.Parse(sessionTimeFormat, value)
		case "timeline":
			s.Timeline, err = number[uint32](value, "", 16, 32)
		case "written":
			place, err = parseLSN(value)
			s.Written = uint64(place)
		case "started":
			s.Started, err = time.Parse(sessionTimeFormat, value)
		case "replayed":
			place, err = parseLSN(value)
			s.Replayed = uint64(place)
		case "table":
			s.Table, err = markertable.ParseID(value)
		default:
			err = fmt.Errorf("unknown word %q", excerpt.Of(key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func number[T uint32 | uint64](word, prefix string, base, bits int) (T, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(word, prefix), base, bits)
	return T(n), err
}
