package connect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
)

// minVersion is the first version whose prepared branches survive their connection: major and
// minor.
var minVersion = [2]int{10, 5}

// UnsupportedServerError says why a server, or its user, cannot take part in global transactions.
type UnsupportedServerError struct {
	Subject, Message, Remedy string
}

// Error returns the message and the remedy.
func (u *UnsupportedServerError) Error() string { return u.Message + "; " + u.Remedy }

// checkServer checks each new connection: the driver uses no server that cannot keep txmgr's
// guarantees.
func checkServer(ctx context.Context, conn driver.Conn) error {
	version, err := text(ctx, conn, "SELECT VERSION()")
	if err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	// A build without Galera does not know the variable.
	if on, err := text(ctx, conn, "SHOW VARIABLES WHERE Variable_name = 'wsrep_on'"); err == nil && strings.EqualFold(on, "ON") {
		return &UnsupportedServerError{"Galera", "the server is part of a Galera cluster (wsrep_on is ON), which does not replicate XA transactions", "use a MariaDB without Galera"}
	}
	// A statement that requires PROCESS and does nothing. Without the privilege INNODB_TRX is
	// empty, without an error.
	_, err = text(ctx, conn, "SHOW ENGINE MEMORY STATUS")
	switch {
	case errno.Of(err) == errno.Denied:
		who, _ := text(ctx, conn, "SELECT CURRENT_USER()") // the remedy is clear without it
		return &UnsupportedServerError{
			"privileges", "the user " + who + " has no PROCESS privilege: it cannot see whether the connection that prepared a branch still has it, and a commit before it has let go can lose the branch",
			"GRANT PROCESS, CONNECTION ADMIN ON *.* TO " + quoteUser(who),
		}
	case err != nil:
		return fmt.Errorf("ask for privileges: %w", err)
	}
	return nil
}

// checkVersion checks the result of VERSION().
func checkVersion(version string) error {
	if !strings.Contains(version, "MariaDB") {
		return &UnsupportedServerError{"version", "the server is version " + excerpt.Of(version) + ", which is not MariaDB; XA of MySQL is another one", "use MariaDB"}
	}
	var number [2]int
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "5.5.5-"), ".", 3) {
		if i < len(number) {
			number[i], _ = strconv.Atoi(part) // 0 if it is not a number: too old
		}
	}
	if number[0] < minVersion[0] || number[0] == minVersion[0] && number[1] < minVersion[1] {
		return &UnsupportedServerError{"version", "the server is version " + excerpt.Of(version) + ", which forgets a prepared branch when its connection ends", fmt.Sprintf("upgrade to MariaDB %d.%d or later", minVersion[0], minVersion[1])}
	}
	return nil
}

// CurrentUser is the connection's user, quoted for GRANT.
func CurrentUser(ctx context.Context, on interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) string {
	var who string
	_ = on.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&who) // the remedy is clear without it
	return quoteUser(who)
}

// quoteUser quotes the result of CURRENT_USER() for GRANT.
func quoteUser(who string) string {
	at := strings.LastIndexByte(who, '@')
	if at < 0 {
		return "CURRENT_USER"
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return quote(who[:at]) + "@" + quote(who[at+1:])
}

// text runs a query on a driver connection, and returns the last column of its first row; "" if
// there is no row.
func text(ctx context.Context, conn driver.Conn, query string) (value string, err error) {
	q, ok := conn.(driver.QueryerContext)
	if !ok {
		return "", fmt.Errorf("a connection of type %T cannot query", conn)
	}
	rows, err := q.QueryContext(ctx, query, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	switch err := rows.Next(values); {
	case errors.Is(err, io.EOF) || err == nil && len(values) == 0:
		return "", nil
	case err != nil:
		return "", err
	}
	switch last := values[len(values)-1].(type) {
	case []byte:
		return string(last), nil
	default:
		return fmt.Sprint(last), nil
	}
}
