package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/calls"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/connect"
	"github.com/txmgr/txmgr/participant/postgres/internal/health"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Kind is the kind of participant under which a database is registered.
const Kind = "postgres"

// Driver makes the coordinator's side of one database. It does not connect. Each database of a
// server is a participant of its own. Driver implements [participant.Driver]. The settings, of
// which the first three exclude each other:
//
//	dsn_file  a file on each node that holds the connection string; read at each connect
//	dsn_env   an environment variable of each node that holds it
//	dsn       the connection string itself, without a password
//	fence     on or off: whether a rollback terminates the application's backend; defaults to on
//	commit_marker
//	          the name of the marker table, with its schema, which is created if it does not exist,
//	          or off; defaults to [DefaultMarkerTable] where that can be created
func Driver(_ context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
	s, err := connect.ReadSettings(p)
	if err != nil {
		return nil, err
	}
	markers, err := markertable.Parse(s.Markers)
	if err != nil {
		return nil, fmt.Errorf("postgres %s: %w", p.Name, err)
	}
	// The pool outlives the call that opens it.
	pool, err := s.Pool(context.Background())
	if err != nil {
		return nil, fmt.Errorf("postgres %s: %w", p.Name, err)
	}
	return &resourceManager{
		calls: calls.New("postgres "+p.Name, connect.Redact), prefix: txn.ClusterPrefix(cluster), fenced: s.Fence, markers: markers, settings: s, pool: pool,
	}, nil
}

// resourceManager is the coordinator's side of one database.
type resourceManager struct {
	calls    *calls.Calls
	prefix   string
	fenced   bool
	markers  markertable.Table
	settings connect.Settings
	pool     *pgxpool.Pool
}

// own rejects branches of other clusters.
func (r *resourceManager) own(b participant.Branch) error {
	if !strings.HasPrefix(b.XID, r.prefix) {
		return fmt.Errorf("%w: branch %q is not of this cluster", txn.ErrInvalid, excerpt.Of(b.XID))
	}
	return nil
}

// Prepared implements [participant.Participant].
func (r *resourceManager) Prepared(ctx context.Context, prefix string) (list []participant.Prepared, err error) {
	ctx, fail := r.calls.Begin(ctx, "list prepared transactions")
	defer fail(&err)
	rows, err := r.pool.Query(ctx, `
		SELECT gid, prepared, `+preparedAge+`, 'user ' || owner || ', database ' || database
		FROM pg_prepared_xacts
		WHERE database = current_database() AND left(gid, length($1::text)) = $1::text
		ORDER BY gid`, prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p participant.Prepared, err error) {
		err = row.Scan(&p.XID, &p.Since, &p.Age, &p.Owner)
		return p, err
	})
}

// Check implements [participant.Participant].
func (r *resourceManager) Check(ctx context.Context) (err error) {
	ctx, fail := r.calls.Begin(ctx, "check")
	defer fail(&err)
	var (
		version, slots    int
		standby, super    bool
		user, foreignUser string
	)
	err = r.pool.QueryRow(ctx, `
		SELECT current_setting('server_version_num')::int, current_setting('max_prepared_transactions')::int,
			pg_is_in_recovery(), current_setting('is_superuser') = 'on', current_user::text,
			coalesce((SELECT min(owner::text) FROM pg_prepared_xacts
				WHERE database = current_database() AND left(gid, length($1::text)) = $1::text AND owner <> current_user), '')`,
		r.prefix).Scan(&version, &slots, &standby, &super, &user, &foreignUser)
	switch {
	case err != nil:
		return err
	case version < health.MinVersion:
		return fmt.Errorf("the server is PostgreSQL %d; 13 or later is needed", version/10000)
	case standby:
		return errors.New("the server is a standby, which cannot finish transactions; connect to the primary, for example with target_session_attrs=read-write")
	case slots == 0:
		return errors.New("the server allows no prepared transactions; run ALTER SYSTEM SET max_prepared_transactions = 200 and restart it")
	case foreignUser != "" && !super:
		return fmt.Errorf("user %s prepared branches here, which %s may not finish; connect as %s or as a superuser", foreignUser, user, foreignUser)
	}
	return r.ensureMarkers(ctx)
}

var _ participant.HealthChecker = (*resourceManager)(nil)

// CheckHealth implements [participant.HealthChecker].
func (r *resourceManager) CheckHealth(ctx context.Context) []participant.Check {
	return health.Server{Pool: r.pool, Settings: r.settings, Prefix: r.prefix, Markers: r.markers, Calls: r.calls}.Check(ctx)
}

// Close implements [participant.Participant]. Calls in flight end with an error.
func (r *resourceManager) Close() error {
	r.calls.Close()
	r.pool.Close()
	return nil
}
