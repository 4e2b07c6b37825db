package mariadb

import (
	"fmt"
	"strings"
)

// Script is what an application runs that takes part without this package: in any
// language, or at the prompt.
type Script struct {
	// Table makes the table of proof, once for a database. It may be repeated.
	Table string
	// Session is the query for what is given as session at enlist. It is run
	// before, on the connection that will do the work.
	Session string
	// Begin starts the branch on that connection, after it was enlisted and before
	// the work. That the row is there already (error 1062) means that the branch
	// has been rolled back: end it by Rollback.
	Begin []string
	// Prepare is the vote: yes when both succeed. If not, the branch is ended by
	// Rollback.
	Prepare []string
	// Commit and Rollback end the branch on that same connection; any other may do
	// it only when that one has left the server.
	Commit, Rollback string
}

// ManualSQL gives the script for a branch. proof is as in [DB.MarkerTable]. The error is
// [txn.ErrInvalid].
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

// readable is literal for people.
func (n xaName) readable() string {
	return fmt.Sprintf("%s,%s,%d", readableBytes(n.gtrid), readableBytes(n.bqual), n.format)
}

func readableBytes(s string) string {
	if strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		return "'" + s + "'"
	}
	return bytesLiteral(s)
}
