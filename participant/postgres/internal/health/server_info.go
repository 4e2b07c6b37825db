package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn/admin"
)

// serverInfo is what a server reports about itself, for the health checks.
type serverInfo struct {
	version, database    string
	versionNumber        int
	userName, quotedUser string
	superuser            bool
	mayControl           bool // pg_control_system
	maySee, maySignal    bool // backends of other users
	others               []string
	standby, readOnly    bool
	slotCount            int
	connections          int
	fsync, fullPages     bool
	synchronousCommit    string
	standbyNames         string
	standbys             int  // standbys that stream from this server
	synchronous          int  // how many of them are synchronous; -1: the user may not see it
	mayReadHistory       bool // of timelines
	idleTimeout          time.Duration
	lockTimeout          time.Duration
	statementTimeout     time.Duration
	prepared             []preparedInfo
}

// preparedInfo summarizes the prepared transactions of one user in one database, either those of
// this cluster or all others.
type preparedInfo struct {
	owner, database      string
	ours, inThisDatabase bool
	count                int
	oldest               string
	since                time.Time
	age                  time.Duration
}

func (s Server) serverInfo(ctx context.Context) (_ *serverInfo, err error) {
	ctx, fail := s.Calls.Begin(ctx, "check health")
	defer fail(&err)
	var f serverInfo
	var idle, lock, statement int64
	err = s.Pool.QueryRow(ctx, `
		SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_database(),
			current_user::text, quote_ident(current_user), current_setting('is_superuser') = 'on',
			has_function_privilege('pg_control_system()', 'EXECUTE'),
			pg_has_role('pg_read_all_stats', 'USAGE'), pg_has_role('pg_signal_backend', 'USAGE'),
			array(SELECT DISTINCT usename::text FROM pg_stat_activity
				WHERE datname = current_database() AND usename <> current_user AND coalesce(backend_type, 'client backend') = 'client backend' ORDER BY 1 LIMIT 10),
			pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool,
			current_setting('max_prepared_transactions')::int, current_setting('max_connections')::int,
			current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
			current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), standbys, synchronous,
			has_function_privilege('pg_read_file(text)', 'EXECUTE'),
			(SELECT setting::bigint FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'),
			(SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'),
			(SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout')
		FROM (
			SELECT count(*)::int AS standbys,
				CASE WHEN count(*) > count(r.sync_state) THEN -1 ELSE count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum'))::int END AS synchronous
			FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
			WHERE s.slot_type IS DISTINCT FROM 'logical' AND r.state IS DISTINCT FROM 'backup'
		) of_this_server`).Scan(
		&f.version, &f.versionNumber, &f.database, &f.userName, &f.quotedUser, &f.superuser,
		&f.mayControl, &f.maySee, &f.maySignal, &f.others, &f.standby, &f.readOnly, &f.slotCount, &f.connections,
		&f.fsync, &f.fullPages, &f.synchronousCommit, &f.standbyNames, &f.standbys, &f.synchronous, &f.mayReadHistory, &idle, &lock, &statement)
	if err != nil {
		return nil, err
	}
	f.idleTimeout, f.lockTimeout, f.statementTimeout = time.Duration(idle)*time.Millisecond, time.Duration(lock)*time.Millisecond, time.Duration(statement)*time.Millisecond
	f.prepared, err = s.preparedInfo(ctx)
	return &f, err
}

func (s Server) preparedInfo(ctx context.Context) ([]preparedInfo, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT owner::text, database::text, left(gid, length($1::text)) = $1::text, database = current_database(), count(*),
			(array_agg(gid ORDER BY prepared))[1], min(prepared), extract(epoch FROM now() - min(prepared))::float8
		FROM pg_prepared_xacts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`, s.Prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p preparedInfo, err error) {
		var seconds float64
		err = row.Scan(&p.owner, &p.database, &p.ours, &p.inThisDatabase, &p.count, &p.oldest, &p.since, &seconds)
		p.age = time.Duration(seconds * float64(time.Second))
		return p, err
	})
}

// oldPrepared is the age at which a prepared transaction needs an operator's attention: it keeps
// its locks, and prevents VACUUM from removing dead rows.
const oldPrepared = time.Hour

func (f *serverInfo) checkAge() participant.Check {
	const subject = "old prepared transactions"
	var found, fix []string
	var call string
	foreign := 0
	for _, p := range f.prepared {
		if !p.ours {
			foreign += p.count
		}
		if p.age < oldPrepared {
			continue
		}
		name, err := sqltext.Literal(p.oldest)
		if err != nil {
			name = excerpt.Of(p.oldest)
		}
		switch {
		case p.ours:
			found = append(found, fmt.Sprintf("%d of this cluster in database %s, the oldest %s since %s", p.count, p.database, name, p.since.UTC().Format(time.RFC3339)))
			call = admin.CallScan
		default:
			found = append(found, fmt.Sprintf("%d that are not this cluster's in database %s, by user %s, the oldest %s since %s", p.count, p.database, p.owner, name, p.since.UTC().Format(time.RFC3339)))
			fix = append(fix, fmt.Sprintf("ask who prepared it; then, in database %s as %s: ROLLBACK PREPARED %s; or COMMIT PREPARED", p.database, p.owner, strings.TrimSpace(name)))
		}
	}
	if len(found) == 0 {
		return okCheck(subject, "none is older than %v; %d are not this cluster's", oldPrepared, foreign)
	}
	if call != "" { // last, so that it stands beside the call
		fix = append(fix, "see why this cluster's are not finished")
	}
	return participant.Check{
		Level: participant.Warning, Subject: subject,
		Message: strings.Join(found, "; ") + ": they hold their locks and prevent VACUUM from removing dead rows, in the whole server",
		Remedy:  strings.Join(fix, "; "),
		Call:    call,
	}
}

// forgottenAge is the age at which a prepared branch in another database indicates that the
// database is not registered.
const forgottenAge = time.Minute

func (f *serverInfo) checkOtherDatabases() participant.Check {
	const subject = "databases"
	d := okCheck(subject, "no branch of this cluster is prepared in another database of this server")
	var at []string
	for _, p := range f.prepared {
		if !p.ours || p.inThisDatabase {
			continue
		}
		at = append(at, fmt.Sprintf("%d in %s", p.count, p.database))
		if p.age > forgottenAge {
			d.Level = participant.Warning
		}
	}
	if len(at) > 0 {
		d.Message = fmt.Sprintf("branches of this cluster are prepared in other databases of this server too (%s): each database has to be a participant of its own", strings.Join(at, ", "))
		d.Remedy, d.Call = "see that each is registered", admin.CallListParticipants
	}
	return d
}
