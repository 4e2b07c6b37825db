package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/calls"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/connect"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
)

// MinVersion is the first server_version_num that has pg_current_xact_id.
const MinVersion = 130000

// Server is a server that is to be checked.
type Server struct {
	Pool     *pgxpool.Pool
	Settings connect.Settings
	Prefix   string // of the names of the cluster's branches
	Markers  markertable.Table
	Calls    *calls.Calls
}

// Check checks everything that is known to go wrong. It changes nothing.
func (s Server) Check(ctx context.Context) []participant.Check {
	f, err := s.serverInfo(ctx)
	if err != nil {
		return []participant.Check{{
			Level: participant.Failure, Subject: "connection", Message: err.Error(),
			Remedy: "try the connection string in " + s.Settings.SecretRef.Source + " with psql",
		}}
	}
	list := []participant.Check{
		f.checkConnection(), f.checkVersion(), f.checkWritable(), f.checkSlots(), f.checkUser(), f.checkDurability(), f.checkFailover(), f.checkTimeouts(), f.checkAge(), f.checkOtherDatabases(),
	}
	return append(list, s.checkMarkers(ctx, f), s.checkPooler(ctx))
}

func okCheck(subject, format string, args ...any) participant.Check {
	return participant.Check{Level: participant.OK, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

func (f *serverInfo) checkConnection() participant.Check {
	return okCheck("connection", "PostgreSQL %s, database %s, user %s", f.version, f.database, f.userName)
}

func (f *serverInfo) checkVersion() participant.Check {
	const subject = "version"
	if f.versionNumber < MinVersion {
		return participant.Check{
			Level: participant.Failure, Subject: subject,
			Message: fmt.Sprintf("PostgreSQL %s has no transaction numbers that are never used again (xid8), by which the outcomes of branches are proved", f.version),
			Remedy:  "upgrade the server to PostgreSQL 13 or later",
		}
	}
	return okCheck(subject, "PostgreSQL %s; 13 or later is needed", f.version)
}

func (f *serverInfo) checkWritable() participant.Check {
	const subject = "read-only"
	switch {
	case f.standby:
		return participant.Check{
			Level: participant.Failure, Subject: subject,
			Message: "the server is a standby: it can neither take nor finish branches",
			Remedy:  "connect to the primary: name all servers in the connection string, with target_session_attrs=read-write",
		}
	case f.readOnly:
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: fmt.Sprintf("default_transaction_read_only is on for user %s here: statements that write fail, unless the application's user has it off", f.userName),
			Remedy:  fmt.Sprintf("find where it is set: SELECT source, sourcefile FROM pg_settings WHERE name = 'default_transaction_read_only'; for example ALTER DATABASE %s RESET default_transaction_read_only;", f.database),
		}
	}
	return okCheck(subject, "the server takes writes")
}

// checkSlots compares max_prepared_transactions with the number of connections that may prepare.
func (f *serverInfo) checkSlots() participant.Check {
	const subject = "max_prepared_transactions"
	used := 0
	for _, p := range f.prepared {
		used += p.count
	}
	d := participant.Check{Level: participant.Warning, Subject: subject}
	d.Remedy = fmt.Sprintf("ALTER SYSTEM SET max_prepared_transactions = %d; then restart PostgreSQL (standbys first)", max(200, f.connections))
	switch {
	case f.slotCount == 0:
		d.Level = participant.Failure
		d.Message = "max_prepared_transactions = 0: PREPARE TRANSACTION fails, so that a branch votes no unless it is the only one of its transaction"
	case used*5 >= f.slotCount*4:
		d.Message = fmt.Sprintf("%d of %d prepared transactions are in use: when all are, branches vote no (53200)", used, f.slotCount)
		d.Remedy = "find out what is prepared, and why it is not finished; or " + d.Remedy
	case f.slotCount < f.connections:
		d.Message = fmt.Sprintf("max_prepared_transactions = %d is less than max_connections = %d: when more connections prepare at once, the rest vote no (53200); %d are prepared now", f.slotCount, f.connections, used)
	default:
		return okCheck(subject, "%d of %d are prepared now", used, f.slotCount)
	}
	return d
}

// checkUser reports which privileges are missing, and when they matter.
func (f *serverInfo) checkUser() participant.Check {
	const subject = "user"
	for _, p := range f.prepared {
		if p.ours && p.inThisDatabase && p.owner != f.userName && !f.superuser {
			return participant.Check{
				Level: participant.Failure, Subject: subject,
				Message: fmt.Sprintf("user %s prepared %d branches here, which %s may not finish: only the user that prepared one may, or a superuser; no GRANT changes that", p.owner, p.count, f.userName),
				Remedy:  "let the coordinator connect as " + p.owner,
			}
		}
	}
	if !f.mayControl {
		return participant.Check{
			Level: participant.Failure, Subject: subject,
			Message: fmt.Sprintf("user %s may not call pg_control_system, without which no outcome can be proved", f.userName),
			Remedy:  fmt.Sprintf("GRANT EXECUTE ON FUNCTION pg_control_system() TO %s; and to the application's user", f.quotedUser),
		}
	}
	var missing []string
	if !f.maySee {
		missing = append(missing, "pg_read_all_stats")
	}
	if !f.maySignal {
		missing = append(missing, "pg_signal_backend")
	}
	switch {
	case f.superuser:
		return okCheck(subject, "%s is a superuser, who may do all that is needed", f.userName)
	case len(f.others) == 0:
		return okCheck(subject, "%s may finish what %s prepared, and end its connections; no other user is connected now", f.userName, f.userName)
	case len(missing) > 0:
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: fmt.Sprintf("user %s lacks %s, and %s have connections here: if the application is one of them, its branches cannot be finished (only the user that prepared one may, or a superuser), nor its hanging connections ended at the deadline", f.userName, strings.Join(missing, " and "), strings.Join(f.others, ", ")),
			Remedy:  fmt.Sprintf("let coordinator and application connect as the same user; to end connections of others: GRANT %s TO %s;", strings.Join(missing, ", "), f.quotedUser),
		}
	}
	return participant.Check{
		Level: participant.Warning, Subject: subject,
		Message: fmt.Sprintf("%s have connections here: if the application is one of them, user %s can end its connections (but not those of superusers), and cannot finish its branches: only the user that prepared one may, or a superuser", strings.Join(f.others, ", "), f.userName),
		Remedy:  "let coordinator and application connect as the same user",
	}
}

// checkDurability checks the settings that decide what survives a crash. PREPARE TRANSACTION and
// COMMIT PREPARED wait for the disk whatever synchronous_commit is.
func (f *serverInfo) checkDurability() participant.Check {
	const subject = "durability"
	switch {
	case !f.fsync:
		return participant.Check{
			Level: participant.Failure, Subject: subject,
			Message: "fsync is off: when the machine crashes, branches that voted yes or were committed are lost, and the database may be damaged",
			Remedy:  "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();",
		}
	case !f.fullPages:
		return participant.Check{
			Level: participant.Failure, Subject: subject,
			Message: "full_page_writes is off: when the machine crashes, pages may be left half written, unless the file system prevents it",
			Remedy:  "ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();",
		}
	case f.synchronousCommit == "off":
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: "synchronous_commit is off: branches of global transactions reach the disk all the same, but what else is committed in this database can be lost in a crash after it was acknowledged",
			Remedy:  "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();",
		}
	}
	return okCheck(subject, "fsync and full_page_writes are on")
}

func (f *serverInfo) checkFailover() participant.Check {
	const subject = "failover"
	const lost = "a failover may lose branches that had voted or were committed"
	history := ""
	if !f.mayReadHistory {
		history = fmt.Sprintf("; after a failover the outcomes of branches that were being committed are unknown, because user %s may not read which log the new primary had received: GRANT EXECUTE ON FUNCTION pg_read_file(text) TO %s; allows it, and with it all files of the server", f.userName, f.quotedUser)
	}
	switch {
	case f.standbys > 0 && f.standbyNames == "":
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: fmt.Sprintf("%d standbys, all asynchronous: %s, which is then reported as a heuristic outcome%s", f.standbys, lost, history),
			Remedy:  "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf();",
		}
	case f.standbyNames == "":
		return okCheck(subject, "no standby is connected, and none would be synchronous: %s to one", lost)
	case f.synchronousCommit == "off" || f.synchronousCommit == "local":
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: fmt.Sprintf("synchronous_commit is %s: nothing waits for the synchronous standbys (%s), and %s", f.synchronousCommit, excerpt.Of(f.standbyNames), lost),
			Remedy:  "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();",
		}
	case f.synchronous == 0:
		return participant.Check{
			Level: participant.Warning, Subject: subject,
			Message: fmt.Sprintf("no synchronous standby is connected (%s; %d others): every prepare and commit waits for one", excerpt.Of(f.standbyNames), f.standbys),
			Remedy:  "start the standby; or compare its application_name (SELECT application_name, sync_state FROM pg_stat_replication) with synchronous_standby_names",
		}
	}
	return okCheck(subject, "synchronous standbys: %s%s", excerpt.Of(f.standbyNames), history)
}

// shortTimeout is a statement timeout that phase two may exceed on a busy server.
const shortTimeout = 5 * time.Second

func (f *serverInfo) checkTimeouts() participant.Check {
	const subject = "timeouts"
	var set []string
	for _, s := range []struct {
		name, what string
		value      time.Duration
	}{
		{"idle_in_transaction_session_timeout", "sessions that idle within a branch are ended before the transaction's own deadline, and the branch votes no", f.idleTimeout},
		{"lock_timeout", "statements of branches that wait longer for a lock fail; what finishes branches does not wait for locks", f.lockTimeout},
		{"statement_timeout", "longer statements fail, those that finish branches too", f.statementTimeout},
	} {
		if s.value > 0 {
			set = append(set, fmt.Sprintf("%s = %v: %s", s.name, s.value, s.what))
		}
	}
	switch {
	case 0 < f.statementTimeout && f.statementTimeout < shortTimeout:
		return participant.Check{
			Level: participant.Warning, Subject: subject, Message: strings.Join(set, "; "),
			Remedy: fmt.Sprintf("ALTER ROLE %s SET statement_timeout = 0;", f.quotedUser),
		}
	case len(set) == 0:
		return okCheck(subject, "none is set for user %s: the transaction's deadline is the only one", f.userName)
	}
	return okCheck(subject, "for user %s: %s", f.userName, strings.Join(set, "; "))
}

// checkMarkers checks whether branches can write marker rows, and the coordinator read them.
func (s Server) checkMarkers(ctx context.Context, f *serverInfo) participant.Check {
	const subject = "marker table"
	if s.Markers == "" {
		return okCheck(subject, "none (commit_marker=off): every branch prepares, the only one of a transaction too")
	}
	ctx, fail := s.Calls.Begin(ctx, "check the marker table")
	found, err := s.Markers.Find(ctx, s.Pool)
	var excluded []string
	if err == nil {
		excluded, err = s.Markers.Excluded(ctx, s.Pool, f.others)
	}
	missing := errors.Is(err, markertable.ErrMissing)
	fail(&err)
	d := participant.Check{Level: participant.Warning, Subject: subject}
	switch {
	case missing:
		d.Message = fmt.Sprintf("the table %s does not exist, and is created only if user %s may create it: until then every branch prepares, the only one of a transaction too", s.Markers, f.userName)
		d.Remedy = s.Markers.Create() + "; " + s.Markers.GrantCoordinator(f.quotedUser) + "; and to the application's user: " + s.Markers.GrantApplication("...")
	case err != nil:
		d.Level, d.Message, d.Remedy = participant.Failure, err.Error(), "configure another name (commit_marker), and the same in the application (MarkerTable)"
	case !found.MayAll:
		d.Level = participant.Failure
		d.Message = fmt.Sprintf("user %s may not use the table %s: outcomes of branches that wrote a row there cannot be determined", f.userName, s.Markers)
		d.Remedy = s.Markers.GrantCoordinator(f.quotedUser)
	case len(excluded) > 0:
		d.Message = fmt.Sprintf("%s may not write to %s: if the application is one of them, its branches always prepare, the only one of a transaction too", strings.Join(excluded, ", "), s.Markers)
		d.Remedy = s.Markers.GrantApplication(strings.Join(excluded, ", "))
	default:
		return okCheck(subject, "%s", s.Markers)
	}
	return d
}
