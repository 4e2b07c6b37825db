package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// lineage is the relation of a branch's transaction number to the server's history. A failover
// to a standby, and a point-in-time recovery, begin a new timeline. Numbers that the new timeline
// had not received are assigned again there, so the status of a number may be that of another
// transaction.
type lineage uint8

const (
	// sameTimeline: the server writes the timeline of the session reference.
	sameTimeline lineage = iota
	// inHistory: another timeline, whose history reaches beyond the place of the record
	// that has the number. If the branch was prepared, the record is there: a prepare
	// waits until the log is on disk up to itself. Otherwise a crash on the earlier
	// timeline may have lost the record, and other records have its place.
	inHistory
	// notInHistory: nothing that the branch's transaction wrote is in the history.
	notInHistory
	// unknownHistory: another timeline, and it is not known whether the number is in
	// its history.
	unknownHistory
)

// timeline is the timeline that a server writes, and its present end.
type timeline struct {
	id  uint32
	end lsn
	// replayed is how far the server's last recovery came. Zero: the server has recovered
	// nothing since it was started.
	replayed lsn
}

// lineage compares the session reference's place in the write-ahead log with the server's.
// why states the reason for the operator; it is empty for [sameTimeline].
func (r *resourceManager) lineage(ctx context.Context, s SessionRef, now timeline, e xactStatus) (_ lineage, why string, err error) {
	switch {
	case s.Timeline == 0 && (now.id == 1 || e.startRecorded && !e.crashRecovered):
		return sameTimeline, "", nil // the backend cannot have been on another
	case s.Timeline == 0:
		return unknownHistory, fmt.Sprintf("the session reference has no timeline, and the server has failed over or been restored at least once (timeline %d)", now.id), nil
	case s.Timeline == now.id && lsn(s.Written) > now.end:
		return notInHistory, fmt.Sprintf("the server's log ends at %v, before the branch (%v): it was restored, or lost its latest log in a crash", now.end, lsn(s.Written)), nil
	case s.Timeline == now.id && e.crashRecovered && now.replayed != 0 && lsn(s.Written) > now.replayed:
		return unknownHistory, fmt.Sprintf("the server recovered up to %v since, and the branch came later (%v): it lost that in a crash, was restored, or is not the server of the connection", now.replayed, lsn(s.Written)), nil
	case s.Timeline == now.id:
		return sameTimeline, "", nil
	}
	moved := fmt.Sprintf("the server has failed over or been restored since (timeline %d, not %d)", now.id, s.Timeline)
	left, found, err := r.timelineEnd(ctx, now.id, s.Timeline)
	switch {
	case err != nil && (sqlstate.Of(err) == sqlstate.NotAllowed || sqlstate.Of(err) == sqlstate.NoFile):
		return unknownHistory, moved + "; what it had received by then is not known, because the history of its timelines cannot be read", nil
	case err != nil:
		return 0, "", err
	case !found:
		return unknownHistory, moved + ", and its history does not have that timeline", nil
	case s.Written == 0:
		return unknownHistory, moved + ", and the session reference has no place in the write-ahead log", nil
	case lsn(s.Written) > left:
		return notInHistory, fmt.Sprintf("%s, with the log up to %v, and the branch came later (%v)", moved, left, lsn(s.Written)), nil
	}
	return inHistory, fmt.Sprintf("%s, with the log up to %v, and the number's place came before (%v)", moved, left, lsn(s.Written)), nil
}

// timelineEnd returns where a timeline ended in the history of the current one.
func (r *resourceManager) timelineEnd(ctx context.Context, current, ended uint32) (at lsn, found bool, err error) {
	var history string
	err = r.pool.QueryRow(ctx, "SELECT pg_read_file($1)", fmt.Sprintf("pg_wal/%08X.history", current)).Scan(&history)
	if err != nil {
		return 0, false, err
	}
	for line := range strings.Lines(history) {
		// A line is the id in decimal, the place of its end, and a reason in plain text.
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != fmt.Sprint(ended) {
			continue
		}
		at, err = parseLSN(words[1])
		return at, err == nil, err
	}
	return 0, false, nil
}

// lsn is a place in the write-ahead log.
type lsn uint64

// String returns PostgreSQL's own text form.
func (l lsn) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)) }

func parseLSN(text string) (lsn, error) {
	high, low, found := strings.Cut(text, "/")
	a, errA := strconv.ParseUint(high, 16, 32)
	b, errB := strconv.ParseUint(low, 16, 32)
	if !found || errA != nil || errB != nil {
		return 0, fmt.Errorf("%q is no place in a write-ahead log", excerpt.Of(text))
	}
	return lsn(a<<32 | b), nil
}

// parseTimeline reads the timeline's id from the name of a file of the write-ahead log.
func parseTimeline(text string) (uint32, error) {
	if len(text) < 8 {
		return 0, fmt.Errorf("%q is no timeline", excerpt.Of(text))
	}
	id, err := strconv.ParseUint(text[:8], 16, 32)
	return uint32(id), err
}
