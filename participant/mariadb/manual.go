package mariadb

import (
	"fmt"
	"strings"
)

// Script has the SQL of a branch for an application that does not use this package: in any
// language, or at the prompt.
type Script struct {
	// Table creates the marker table, once for a database. It may be repeated.
	Table string
	// Session is the query for the session reference that is passed at enlist. Run it before,
	// on the connection that will do the work.
	Session string
	// Begin starts the branch on that connection, after it was enlisted and before the work.
	// That the row exists already (error 1062) means that the branch has been rolled back: end
	// it with Rollback.
	Begin []string
	// Prepare is the vote: yes if both statements succeed. If not, end the branch with Rollback.
	Prepare []string
	// Commit and Rollback end the branch on that same connection; another connection may run
	// them only when the first has ended in the server.
	Commit, Rollback string
}

// ManualSQL returns the script for a branch. proof is the name of the marker table, as in
// [DB.MarkerTable]. The error is [txn.ErrInvalid].
func ManualSQL(xid, proof string) (Script, error) {
	n, err := nameOf(xid)
	if err != nil {
		return Script{}, err
	}
	t, err := newMarkerTable(proof)
	if err != nil {
		return Script{}, err
	}
	name := n.readable()
	s := Script{
		Session:  "SELECT CONCAT('conn=', CONNECTION_ID(), ' start=', " + startQuery + ")",
		Begin:    []string{"XA START " + name},
		Prepare:  []string{"XA END " + name, "XA PREPARE " + name},
		Commit:   xaCommit + " " + name,
		Rollback: xaRollback + " " + name,
	}
	if t != "" {
		s.Table = t.create(newOrigin())
		s.Session = "SELECT CONCAT('conn=', CONNECTION_ID(), ' start=', " + startQuery + ", ' table=', " + t.originQuery() + ")"
		s.Begin = append(s.Begin, fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d)", t.quoted(), readableBytes(xid), markerCommit))
	}
	return s, nil
}

// readable is [xaName.literal] in readable form, if the bytes allow it.
func (n xaName) readable() string {
	return fmt.Sprintf("%s,%s,%d", readableBytes(n.gtrid), readableBytes(n.bqual), n.format)
}

func readableBytes(s string) string {
	if strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		return "'" + s + "'"
	}
	return bytesLiteral(s)
}
