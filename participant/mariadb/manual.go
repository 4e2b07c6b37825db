package mariadb

import (
	"fmt"

	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
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

// FormatID marks the XA names that this package makes: "txm1" in ASCII.
const FormatID = xa.FormatID

// ManualSQL returns the script for a branch. proof is the name of the marker table, as in
// [DB.MarkerTable]. The error is [txn.ErrInvalid].
func ManualSQL(xid, proof string) (Script, error) {
	n, err := xa.ParseName(xid)
	if err != nil {
		return Script{}, err
	}
	t, err := markertable.Parse(proof)
	if err != nil {
		return Script{}, err
	}
	name := n.Readable()
	s := Script{
		Session:  "SELECT CONCAT('conn=', CONNECTION_ID(), ' start=', " + startQuery + ")",
		Begin:    []string{"XA START " + name},
		Prepare:  []string{"XA END " + name, "XA PREPARE " + name},
		Commit:   xaCommit + " " + name,
		Rollback: xaRollback + " " + name,
	}
	if t != "" {
		s.Table = t.Create(markertable.NewOrigin())
		s.Session = "SELECT CONCAT('conn=', CONNECTION_ID(), ' start=', " + startQuery + ", ' table=', " + t.OriginQuery() + ")"
		s.Begin = append(s.Begin, fmt.Sprintf("INSERT INTO %s (xid, kind) VALUES (%s, %d)", t.Quoted(), xa.ReadableBytes(xid), markertable.Commit))
	}
	return s, nil
}
