package mariadb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/connect"
	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/txn/admin"
)

// healthCheck checks one subject.
type healthCheck func(ctx context.Context, r *resourceManager) []participant.Check

// CheckHealth implements [participant.HealthChecker].
func (r *resourceManager) CheckHealth(ctx context.Context) (all []participant.Check) {
	ctx, fail := r.calls.Begin(ctx, "check health")
	var none error
	defer fail(&none)
	version, err := r.version(ctx)
	if err != nil {
		return []participant.Check{unreachableCheck(err)}
	}
	all = append(all, participant.Check{Level: participant.OK, Subject: "version", Message: "MariaDB " + version})
	for _, look := range []healthCheck{
		checkMarkerTable, checkPrivileges, checkSettings, checkConnection, checkPreparedBranches,
	} {
		all = append(all, look(ctx, r)...)
	}
	return all
}

func (r *resourceManager) version(ctx context.Context) (version string, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return version, err
}

// unreachableCheck is the check if no connection can be made.
func unreachableCheck(err error) participant.Check {
	if u := new(connect.UnsupportedServerError); errors.As(err, &u) {
		return participant.Check{Level: participant.Failure, Subject: u.Subject, Message: u.Message, Remedy: u.Remedy}
	}
	return participant.Check{Level: participant.Failure, Subject: "connection", Message: err.Error(), Remedy: "check the connection string, the network and the server"}
}

// skippedCheck is the check of a subject that could not be queried.
func skippedCheck(subject string, err error) []participant.Check {
	return []participant.Check{{Level: participant.Warning, Subject: subject, Message: "it could not be checked: " + err.Error()}}
}

// checkMarkerTable checks that the marker table exists and can be used.
func checkMarkerTable(ctx context.Context, r *resourceManager) []participant.Check {
	const subject = "marker table"
	if r.markers == "" {
		return []participant.Check{{
			Level: participant.Warning, Subject: subject,
			Message: "there is none (commit_marker=off): a branch that is not prepared any more is reported as a heuristic outcome, whether it was committed or not",
			Remedy:  "register the participant again without commit_marker=off, and leave MarkerTable empty in the application",
		}}
	}
	_, err := r.markers.Origin(ctx, r.db)
	if err == nil {
		err = r.markers.Usable(ctx, r.db)
	}
	switch {
	case errors.Is(err, markertable.ErrMissing):
		return []participant.Check{{
			Level: participant.Warning, Subject: subject, Message: "the table " + string(r.markers) + " does not exist yet; it is created at its first use, if the user has the privilege",
			Remedy: r.markers.Create(markertable.NewOrigin()) + "; " + r.markers.Grant(connect.CurrentUser(ctx, r.db)),
		}}
	case err != nil:
		return []participant.Check{{Level: participant.Failure, Subject: subject, Message: err.Error(), Remedy: r.markers.Grant(connect.CurrentUser(ctx, r.db))}}
	}
	return []participant.Check{{Level: participant.OK, Subject: subject, Message: string(r.markers)}}
}

// checkPrivileges checks whether other users' connections can be ended. That they can be seen was
// checked when connecting.
func checkPrivileges(ctx context.Context, r *resourceManager) []participant.Check {
	const subject = "privileges"
	grants, err := r.texts(ctx, "SHOW GRANTS") // never shown: they contain password hashes
	if err != nil {
		return skippedCheck(subject, err)
	}
	for _, g := range grants {
		what, _, global := strings.Cut(g, " ON *.* ")
		if global && (strings.Contains(what, "CONNECTION ADMIN") || strings.Contains(what, "SUPER") || strings.Contains(what, "ALL PRIVILEGES")) {
			return []participant.Check{{Level: participant.OK, Subject: subject, Message: "connections of every user can be seen and ended"}}
		}
	}
	return []participant.Check{{
		Level: participant.Warning, Subject: subject,
		Message: "only connections of the same user can be ended: if the application is another one, its hanging connections are not fenced, and its prepared branches wait until their connections end",
		Remedy:  "GRANT CONNECTION ADMIN ON *.* TO " + connect.CurrentUser(ctx, r.db),
	}}
}

// serverSettings are the server's variables that matter.
type serverSettings struct {
	readOnly, binlog  bool
	flush, syncBinlog int
	isolation         string
	wait              int64
}

// shortWait is a wait_timeout that may end the connection of an application that pauses within
// a branch.
const shortWait = time.Minute

// checkSettings checks the server's variables.
func checkSettings(ctx context.Context, r *resourceManager) []participant.Check {
	var s serverSettings
	err := r.db.QueryRowContext(ctx, "SELECT @@GLOBAL.read_only, @@GLOBAL.log_bin, @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog, @@GLOBAL.tx_isolation, @@GLOBAL.wait_timeout").
		Scan(&s.readOnly, &s.binlog, &s.flush, &s.syncBinlog, &s.isolation, &s.wait)
	if err != nil {
		return skippedCheck("settings", err)
	}
	return s.checks()
}

func (s serverSettings) checks() (all []participant.Check) {
	add := func(bad participant.HealthLevel, isBad bool, subject, found, fix string) {
		d := participant.Check{Level: participant.OK, Subject: subject, Message: "the setting is correct"}
		if isBad {
			d.Level, d.Message, d.Remedy = bad, found, fix
		}
		all = append(all, d)
	}
	add(participant.Failure, s.readOnly, "read_only", "the server is read-only, as a replica is: no branch can be prepared or finished here", "connect to the primary, or: SET GLOBAL read_only = OFF")
	add(participant.Warning, s.flush != 1, "innodb_flush_log_at_trx_commit",
		fmt.Sprintf("it is %d: a crash of the machine loses branches that have voted yes, and commits that were acknowledged", s.flush), "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration")
	add(participant.Warning, s.binlog, "log_bin",
		"the binary log is on: a crash of the server in the middle of XA PREPARE can leave the log and InnoDB inconsistent, and replicas take the locks of a branch when it prepares", "see what is prepared after each crash of the server")
	if s.binlog {
		all[len(all)-1].Call = admin.CallScan
	}
	add(participant.Warning, s.binlog && s.syncBinlog != 1, "sync_binlog",
		fmt.Sprintf("it is %d: after a crash of the machine the binary log lacks branches that InnoDB has", s.syncBinlog), "SET GLOBAL sync_binlog = 1, and in the server's configuration")
	add(participant.Warning, s.isolation == "READ-UNCOMMITTED", "isolation",
		"the default is READ UNCOMMITTED: the application reads what a global transaction may still roll back", "SET GLOBAL tx_isolation = 'REPEATABLE-READ', and in the server's configuration")
	if s.isolation != "SERIALIZABLE" {
		all[len(all)-1].Message += "; XA PREPARE releases locks that were taken for reading only, unless the isolation level is SERIALIZABLE: do not rely on such locks alone"
	}
	add(participant.Warning, s.wait < int64(shortWait/time.Second), "wait_timeout",
		fmt.Sprintf("it is %d s: the server closes the connection of an application that pauses for longer, and its branch is lost", s.wait), "SET GLOBAL wait_timeout = 28800, and in the server's configuration")
	return all
}

// checkConnection detects a proxy that distributes the statements of one connection to several.
func checkConnection(ctx context.Context, r *resourceManager) []participant.Check {
	const subject = "connection"
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return skippedCheck(subject, err)
	}
	defer func() { _ = conn.Close() }() // the queries changed nothing
	var first, second uint64
	var there bool
	err = errors.Join(
		conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&first),
		conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), EXISTS(SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID())").Scan(&second, &there),
	)
	if err != nil {
		return skippedCheck(subject, err)
	}
	if first != second || !there {
		return []participant.Check{{
			Level: participant.Failure, Subject: subject, Message: "the statements of one connection reach the server through several connections: XA and fencing do not work through the proxy between them",
			Remedy: "connect to the server directly, or switch multiplexing off for this user",
		}}
	}
	return []participant.Check{{Level: participant.OK, Subject: subject, Message: "it is one connection of the server"}}
}

// oldPrepared is the age at which a prepared branch of another application is reported.
const oldPrepared = time.Hour

// checkPreparedBranches reports prepared branches that stay unfinished, and those whose locks are
// orphaned.
func checkPreparedBranches(ctx context.Context, r *resourceManager) []participant.Check {
	const subject = "prepared branches"
	before, err := r.unboundTransactions(ctx)
	if err != nil {
		return skippedCheck(subject, err)
	}
	held, err := r.InspectLocks(ctx)
	if err != nil {
		return skippedCheck(subject, err)
	}
	var lost, foreign []string
	for _, h := range held {
		switch {
		case h.Orphaned:
			lost = append(lost, h.XID)
		case !strings.HasPrefix(h.XID, r.prefix):
			foreign = append(foreign, h.XID)
		}
	}
	after, err := r.unboundTransactions(ctx)
	if err != nil {
		return skippedCheck(subject, err)
	}
	// A transaction in both lists also existed when the prepared branches were listed.
	stayed, oldest := 0, time.Duration(0)
	for id, age := range after {
		if _, there := before[id]; there {
			stayed++
			oldest = max(oldest, age)
		}
	}
	all := []participant.Check{{Level: participant.OK, Subject: subject, Message: fmt.Sprintf("%d, of which %d are not of this cluster", len(held)-len(lost), len(foreign))}}
	if len(foreign) > 0 && oldest > oldPrepared {
		all[0].Level = participant.Warning
		all[0].Message += fmt.Sprintf(" (%s); the oldest without a connection has held its locks for %v", excerpt.Of(strings.Join(foreign, " ")), oldest.Round(time.Minute))
		all[0].Remedy = "find their owner: XA RECOVER FORMAT='SQL'; finish them there, or with XA ROLLBACK"
	}
	if unlisted := stayed - (len(held) - len(lost)); len(lost) > 0 || unlisted > 0 {
		all = append(all, participant.Check{
			Level: participant.Failure, Subject: "lost branches",
			Message: fmt.Sprintf("%d transactions hold locks for no connection, and are not listed as prepared (%s)", max(len(lost), unlisted), excerpt.Of(strings.Join(lost, " "))),
			Remedy:  "restart the server, which then lists them again",
		})
	}
	return all
}

// unboundTransactions returns the transactions that belong to no connection, with their ages.
func (r *resourceManager) unboundTransactions(ctx context.Context) (map[string]time.Duration, error) {
	all, err := innodb.Transactions(ctx, r.db)
	ages := map[string]time.Duration{}
	for _, x := range all {
		if x.Conn == 0 && x.State != "ROLLING BACK" {
			ages[x.ID] = x.Age
		}
	}
	return ages, err
}
