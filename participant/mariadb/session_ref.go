package mariadb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// SessionRef identifies the database session in which a branch's work is done. Its
// text form is what the application gives as [txn.Enlistment.SessionRef]:
//
//	conn=1234 start=1795292907 table=5f0c7d1e9a3b2846
//
// table is left out by who writes no row of proof. [ManualSQL] has the query that
// gives it in any language.
type SessionRef struct {
	Conn  uint64 // the connection: CONNECTION_ID()
	Start int64  // of the server, in seconds of Unix time: connections are counted anew
	Table string // what the table of proof calls itself, in 16 digits of base 16; empty: no proof
}

// originLen is the length of what a table of proof calls itself.
const originLen = 16

// String gives the text form.
func (s SessionRef) String() string {
	text := fmt.Sprintf("conn=%d start=%d", s.Conn, s.Start)
	if s.Table != "" {
		text += " table=" + s.Table
	}
	return text
}

// ParseSessionRef reads the text form, and no other text. The error is
// [txn.ErrInvalid].
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
	if errConn != nil || errStart != nil || s.Conn == 0 || s.Start <= 0 || s.Table != "" && !validOrigin(s.Table) || s.String() != text {
		return SessionRef{}, fmt.Errorf("%w: session %q: want a text like %q", txn.ErrInvalid, clip(text), SessionRef{Conn: 1, Start: 1795292907})
	}
	return s, nil
}

// hasMarker reports whether the branch wrote a row of proof.
func (s SessionRef) hasMarker() bool { return s.Table != "" }

// recorded reports whether there is anything on record.
func (s SessionRef) recorded() bool { return s.Conn != 0 }

func validOrigin(s string) bool {
	return len(s) == originLen && strings.Trim(s, "0123456789abcdef") == ""
}
