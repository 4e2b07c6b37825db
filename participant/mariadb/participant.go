package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/calls"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/connect"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Kind is the kind of participant under which a database is registered.
const Kind = "mariadb"

// DefaultMarkerTable is the name of the marker table if none is configured.
const DefaultMarkerTable = markertable.Default

// Driver makes the coordinator's side of one database. It does not connect. It
// implements [participant.Driver]. The settings, of which the first three exclude
// each other:
//
//	dsn_file  a file on each node that holds the connection string; read at each connect
//	dsn_env   an environment variable of each node that holds it
//	dsn       the connection string itself, without a password
//	fence     on or off: whether a rollback ends the application's connection; defaults to on
//	commit_marker
//	          the name of the marker table, which is created if it does not exist, or off;
//	          defaults to [DefaultMarkerTable]
//
// A connection string has the format of go-sql-driver, and names the database:
// user:password@tcp(host:3306)/database.
func Driver(_ context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
	s, err := connect.ReadSettings(p)
	if err != nil {
		return nil, err
	}
	markers, err := markertable.Parse(s.Markers)
	if err != nil {
		return nil, fmt.Errorf("mariadb %s: %w", p.Name, err)
	}
	return &resourceManager{
		calls: calls.New("mariadb "+p.Name, nil), prefix: txn.ClusterPrefix(cluster), fenced: s.Fence, markers: markers, db: s.Pool(),
	}, nil
}

// resourceManager is the coordinator's side of one database.
type resourceManager struct {
	calls          *calls.Calls
	prefix         string
	fenced         bool
	markers        markertable.Table
	db             *sql.DB
	skipDisconnect bool // finish at once, bound or not: a defect that a test has to detect

	mu              sync.Mutex       // guards all below
	nextSnapshot    *snapshotRequest // nil: no call waits for a snapshot that has not begun
	snapshotRunning bool             // runSnapshots is running
}

// own rejects branches of other clusters, and returns the XA name of the branch.
func (r *resourceManager) own(b participant.Branch) (xa.Name, error) {
	if !strings.HasPrefix(b.XID, r.prefix) {
		return xa.Name{}, fmt.Errorf("%w: branch %q is not of this cluster", txn.ErrInvalid, excerpt.Of(b.XID))
	}
	return xa.ParseName(b.XID)
}

// Prepared implements [participant.Participant]. A server has one list for all
// its databases.
func (r *resourceManager) Prepared(ctx context.Context, prefix string) (list []participant.Prepared, err error) {
	ctx, fail := r.calls.Begin(ctx, "list prepared branches")
	defer fail(&err)
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if text := n.Text(); strings.HasPrefix(text, prefix) {
			list = append(list, participant.Prepared{XID: text})
		}
	}
	return list, r.markers.AddTimes(ctx, r.db, list)
}

// xaRecover lists all prepared branches of the server.
func (r *resourceManager) xaRecover(ctx context.Context) (names []xa.Name, err error) {
	rows, err := r.db.QueryContext(ctx, "XA RECOVER FORMAT='SQL'")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var format uint32
		var gtridLen, bqualLen int
		var data string
		if err := rows.Scan(&format, &gtridLen, &bqualLen, &data); err != nil {
			return nil, err
		}
		n, err := xa.ParseRecovered(format, gtridLen, bqualLen, data)
		if err != nil {
			return nil, err
		}
		names = append(names, n)
	}
	return names, rows.Err()
}

// isPrepared reports whether a branch is prepared.
func (r *resourceManager) isPrepared(ctx context.Context, n xa.Name) (bool, error) {
	all, err := r.xaRecover(ctx)
	for _, other := range all {
		if other.Gtrid == n.Gtrid && other.Bqual == n.Bqual {
			return true, err // the format does not distinguish branches
		}
	}
	return false, err
}

// Check implements [participant.Participant].
func (r *resourceManager) Check(ctx context.Context) (err error) {
	ctx, fail := r.calls.Begin(ctx, "check")
	defer fail(&err)
	var readOnly bool
	if err := r.db.QueryRowContext(ctx, "SELECT @@GLOBAL.read_only").Scan(&readOnly); err != nil {
		return err // it says why, if the server or its user is not supported
	}
	if readOnly {
		return errors.New("the server is read-only, as a replica is; connect to the primary, or run SET GLOBAL read_only = OFF")
	}
	if r.markers == "" {
		return nil
	}
	if _, err = r.markers.Ensure(ctx, r.db); err != nil {
		return err
	}
	return r.markers.Usable(ctx, r.db)
}

// Close implements [participant.Participant]. Calls in flight end with an error.
func (r *resourceManager) Close() error {
	r.calls.Close()
	return r.db.Close()
}
