package branchexec

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/participant/web"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Executor runs statements at one participant.
type Executor interface {
	// Run runs a statement in the transaction's branch at the participant. The first statement
	// enlists the branch.
	Run(ctx context.Context, tx *txn.Tx, statement string) (Result, error)
	// Close closes the connections to the participant. Prepared branches stay prepared.
	Close() error
}

// Result is the result of a statement.
type Result struct {
	// Affected is the number of rows that were changed or read.
	Affected int64 `json:"affected"`
	// Columns and Rows are the rows that were read; empty if there are none.
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	// Deferred means that nothing was done yet: the coordinator calls the participant when the
	// transaction prepares.
	Deferred bool `json:"deferred,omitempty"`
}

// maxRows bounds the rows of one statement. More are an error, since a transaction must not commit
// on the basis of a partial result.
const maxRows = 10_000

// Open returns the application's side of a registered participant. env looks up environment
// variables. It does not connect yet. Errors are [txn.ErrInvalid].
func Open(ctx context.Context, p admin.Participant, env func(string) string) (Executor, error) {
	switch p.Kind {
	case ledger.Kind:
		path := p.Settings["path"]
		if path == "" {
			return nil, fmt.Errorf("%w: ledger %s: its registration has no path", txn.ErrInvalid, p.Name)
		}
		return &ledgerExecutor{ledger.New(p.Name, path)}, nil
	case postgres.Kind:
		return openPostgresExecutor(ctx, p, env)
	case mariadb.Kind:
		return openMariaDBExecutor(p, env)
	case web.Kind:
		return &webExecutor{name: p.Name, service: web.New(p.Name)}, nil
	}
	return nil, fmt.Errorf("%w: participant %s is of kind %q, which takes no statements", txn.ErrInvalid, p.Name, p.Kind)
}

// lookUpDSN determines the DSN of a database from the settings.
func lookUpDSN(p admin.Participant, env func(string) string) (string, error) {
	if dsn := p.Settings["dsn"]; dsn != "" {
		return dsn, nil
	}
	if name := p.Settings["dsn_env"]; name != "" {
		if dsn := env(name); dsn != "" {
			return dsn, nil
		}
		return "", fmt.Errorf("%w: %s %s: its address is in the variable %s, which is not set in this environment", txn.ErrInvalid, p.Kind, p.Name, name)
	}
	if name := p.Settings["dsn_file"]; name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("%w: %s %s: read its address from a file: %w", txn.ErrInvalid, p.Kind, p.Name, err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	return "", fmt.Errorf("%w: %s %s: its registration has no address", txn.ErrInvalid, p.Kind, p.Name)
}
