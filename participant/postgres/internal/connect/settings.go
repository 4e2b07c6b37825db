package connect

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/internal/dbsettings"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Limits of the coordinator's own pool.
const (
	maxConns       = 8
	connectTimeout = 5 * time.Second
	idleTimeout    = 5 * time.Minute
)

// Settings are the parsed settings of a registration.
type Settings struct{ dbsettings.Settings }

// ReadSettings parses the settings of a participant, and reads no connection string. The error is
// [txn.ErrInvalid].
func ReadSettings(p admin.Participant) (s Settings, err error) {
	s.Settings, err = dbsettings.Read(p, holdsPassword, isConnectionString)
	return s, err
}

// isConnectionString reports whether a setting that names the source of a connection string
// holds the string itself. It must not be shown then.
func isConnectionString(value string) bool {
	return strings.Contains(value, "://") || strings.Contains(value, "=")
}

var passwordWord = regexp.MustCompile(`(?i)(^|\s)(ssl)?password\s*=`)

// holdsPassword reports whether a connection string may hold a password. A string that cannot be
// parsed may.
func holdsPassword(dsn string) bool {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return passwordWord.MatchString(dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil || hasStrayAt(dsn) {
		return true
	}
	if _, has := u.User.Password(); has {
		return true
	}
	query, err := url.ParseQuery(u.RawQuery)
	for key := range query {
		if lower := strings.ToLower(key); lower == "password" || lower == "sslpassword" {
			return true
		}
	}
	return err != nil
}

// hasStrayAt reports whether a URL has an at sign after its authority. Most likely the password
// has a slash, question mark or number sign that is not escaped, and a part of it would be taken
// for a port or the name of a database.
func hasStrayAt(dsn string) bool {
	scheme, rest, found := strings.Cut(dsn, "://")
	if !found || scheme != "postgres" && scheme != "postgresql" {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

// Config reads the connection string again. The parser's error is not shown: it may quote the
// password.
func (s Settings) Config() (*pgx.ConnConfig, error) {
	dsn, err := s.SecretRef.Read()
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	c, err := pgxpool.ParseConfig(dsn) // it accepts the pool_... words that a copied string may have
	if err != nil || hasStrayAt(dsn) {
		return nil, fmt.Errorf("%w: the connection string in %s is malformed (it is not shown because it may hold a password); try it with psql", txn.ErrInvalid, s.SecretRef.Source)
	}
	conn := c.ConnConfig
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout > connectTimeout {
		conn.ConnectTimeout = connectTimeout
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "txmgr"
	}
	// The server keeps no prepared statement: a pooler may be between.
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	return conn, nil
}

// Pool makes the pool. It connects when first used, and reads the settings for each connection.
func (s Settings) Pool(ctx context.Context) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig("host=127.0.0.1")
	if err != nil {
		return nil, fmt.Errorf("environment variables of PostgreSQL (PG...): %w", err)
	}
	c.MaxConns, c.MinConns, c.MaxConnIdleTime = maxConns, 0, idleTimeout
	c.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		fresh, err := s.Config()
		if err == nil {
			*conn = *fresh
		}
		return err
	}
	return pgxpool.NewWithConfig(ctx, c)
}
