package connect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/txmgr/txmgr/participant/internal/dbsettings"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Limits of the coordinator's own pool.
const (
	MaxConns       = 8
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

// isConnectionString reports whether a setting that names the source of a connection string holds
// the string itself. It must not be shown then. A string with a password begins with a user.
func isConnectionString(value string) bool {
	return !strings.HasPrefix(value, "/") && strings.ContainsAny(value, "@(")
}

// errMalformed replaces every error of a connection string.
var errMalformed = errors.New("malformed")

// parse parses a connection string. A part in the wrong place may be the password, which network
// errors would show.
func parse(dsn string) (*mysql.Config, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errMalformed
	}
	switch c.Net {
	case "unix":
	case "tcp", "tcp4", "tcp6":
		_, port, err := net.SplitHostPort(c.Addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return nil, errMalformed
		}
	default:
		return nil, errMalformed
	}
	return c, nil
}

// holdsPassword reports whether a connection string may hold a password. A string that cannot be
// parsed may.
func holdsPassword(dsn string) bool {
	c, err := parse(dsn)
	if err != nil || c.Passwd != "" {
		return true
	}
	for name := range c.Params {
		if strings.Contains(strings.ToLower(name), "passw") {
			return true
		}
	}
	return false
}

// config reads the connection string again. The parser's error is not shown: it may quote the
// password.
func (s Settings) config() (*mysql.Config, error) {
	dsn, err := s.SecretRef.Read()
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	c, err := parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: the connection string in %s is malformed (it is not shown because it may hold a password); want one like user:password@tcp(host:3306)/database", txn.ErrInvalid, s.SecretRef.Source)
	}
	if c.DBName == "" {
		return nil, fmt.Errorf("%w: the connection string in %s names no database", txn.ErrInvalid, s.SecretRef.Source)
	}
	if c.Timeout == 0 || c.Timeout > connectTimeout {
		c.Timeout = connectTimeout
	}
	c.Logger = log.New(io.Discard, "", 0) // an error is returned, or logged, never both
	c.MultiStatements, c.RejectReadOnly, c.ParseTime = false, false, false
	if c.ConnectionAttributes == "" {
		c.ConnectionAttributes = "program_name:txmgr"
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	// What the coordinator relies on, whatever the server's defaults are. It does not wait for
	// locks: that one is held is an answer.
	for name, value := range map[string]string{
		"autocommit": "1", "tx_isolation": "'READ-COMMITTED'", "tx_read_only": "0", "sql_mode": "'STRICT_ALL_TABLES'",
		"time_zone": "'+00:00'", "innodb_lock_wait_timeout": "0", "lock_wait_timeout": "2", "max_statement_time": "0",
	} {
		c.Params[name] = value
	}
	return c, nil
}

// connector reads the settings for each connection, and accepts supported servers only.
type connector struct{ Settings }

// Pool makes the pool. It connects when first used.
func (s Settings) Pool() *sql.DB {
	db := sql.OpenDB(connector{s})
	db.SetMaxOpenConns(MaxConns)
	db.SetMaxIdleConns(MaxConns)
	db.SetConnMaxIdleTime(idleTimeout)
	return db
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	inner, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%w: the connection string in %s has contradictory parameters (it is not shown because it may hold a password)", txn.ErrInvalid, c.SecretRef.Source)
	}
	conn, err := inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, conn); err != nil {
		_ = conn.Close() // the server is not supported
		return nil, err
	}
	return conn, nil
}

// Driver implements [driver.Connector].
func (connector) Driver() driver.Driver { return mysql.MySQLDriver{} }
