package mariadb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

// SessionRef identifies the connection that works for a branch, and the marker table. The
// application passes its text form as [txn.Enlistment.SessionRef]:
//
//	conn=1234 start=1795292907 table=5f0c7d1e9a3b2846
//
// table is left out if the branch writes no marker row. [ManualSQL] has the query that returns
// the text form, for any language.
type SessionRef struct {
	Conn  uint64 // the connection: CONNECTION_ID()
	Start int64  // of the server, in seconds of Unix time: each start numbers connections anew
	Table string // the marker table's origin, 16 hexadecimal digits; empty: no marker row
}

// startQuery returns the second in which the server started. Both times are of the beginning of
// the statement: setting the clock does not change the result.
const startQuery = "(SELECT CAST(UNIX_TIMESTAMP() AS SIGNED) - CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'UPTIME')"

// String returns the text form.
func (s SessionRef) String() string {
	text := fmt.Sprintf("conn=%d start=%d", s.Conn, s.Start)
	if s.Table != "" {
		text += " table=" + s.Table
	}
	return text
}

// ParseSessionRef parses exactly what String returns. The error is [txn.ErrInvalid].
func ParseSessionRef(text string) (SessionRef, error) {
	var s SessionRef
	var errConn, errStart error
	words := strings.Split(text, " ")
	if len(text) <= txn.MaxSessionRef && len(words) >= 2 {
		s.Conn, errConn = strconv.ParseUint(strings.TrimPrefix(words[0], "conn="), 10, 64)
		s.Start, errStart = strconv.ParseInt(strings.TrimPrefix(words[1], "start="), 10, 64)
		if len(words) == 3 {
			s.Table = strings.TrimPrefix(words[2], "table=")
		}
	}
	if errConn != nil || errStart != nil || s.Conn == 0 || s.Start <= 0 || s.Table != "" && !markertable.ValidOrigin(s.Table) || s.String() != text {
		return SessionRef{}, fmt.Errorf("%w: session reference %q: want a text like %q", txn.ErrInvalid, excerpt.Of(text), SessionRef{Conn: 1, Start: 1795292907})
	}
	return s, nil
}

// hasMarker reports whether the branch writes a marker row.
func (s SessionRef) hasMarker() bool { return s.Table != "" }

// recorded reports whether a session reference was recorded at all.
func (s SessionRef) recorded() bool { return s.Conn != 0 }
