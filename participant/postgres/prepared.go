package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
)

// Parsing and planning the statements that begin and end a branch would cost the server a third of a branch
// with one small statement of its own. So a connection prepares them once, if it prepares those of the application.

// command is a statement and the values of its parameters $1, $2 and so on.
type command struct {
	text string
	args []string
}

// literal is the statement with its values written into it.
func (c command) literal() (string, error) {
	var replacements []string
	for i, a := range c.args {
		literal, err := sqltext.Literal(a)
		if err != nil {
			return "", err
		}
		replacements = append(replacements, "$"+strconv.Itoa(i+1), literal)
	}
	return strings.NewReplacer(replacements...).Replace(c.text), nil
}

// statements are those that are prepared on a connection, by their text; nil if none may be.
type statements map[string]*pgconn.StatementDescription

// statementsKey is the key of the statements that a connection caches.
const statementsKey = "txmgr.statements"

// prepare prepares those statements that are not prepared yet, in one round trip. The connection is not in a
// transaction. It returns nil where the pool is configured not to prepare statements, for example because a pooler
// would assign another backend, and where that has been noticed.
func prepare(ctx context.Context, conn *pgx.Conn, texts ...string) (statements, error) {
	kept := conn.PgConn().CustomData()
	known, found := kept[statementsKey].(statements)
	if !found {
		if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			known = make(statements)
		}
		kept[statementsKey] = known
	}
	if known == nil {
		return nil, nil
	}
	var missing []*pgconn.StatementDescription
	for _, text := range texts {
		if known[text] == nil {
			// Another client of a pooler gives a name to the same text only.
			missing = append(missing, &pgconn.StatementDescription{Name: fmt.Sprintf("txmgr_%x", sha256.Sum224([]byte(text))), SQL: text})
		}
	}
	if missing == nil {
		return known, nil
	}
	err := known.add(conn.PgConn().StartPipeline(ctx), missing)
	if sqlstate.NotPrepared(err) {
		return forgetPrepared(conn), nil
	}
	return known, err
}

// add prepares statements. Those before one that fails are prepared.
func (s statements) add(p *pgconn.Pipeline, missing []*pgconn.StatementDescription) error {
	for _, m := range missing {
		p.SendPrepare(m.Name, m.SQL, nil)
	}
	err := p.Sync()
	for _, m := range missing {
		if err != nil {
			break
		}
		var result any
		result, err = p.GetResults()
		if d, ok := result.(*pgconn.StatementDescription); ok {
			m.ParamOIDs, m.Fields = d.ParamOIDs, d.Fields
			s[m.SQL] = m
		}
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return err
}

// forgetPrepared has the connection not prepare statements any more: what it prepares is not there later.
func forgetPrepared(conn *pgx.Conn) statements {
	conn.PgConn().CustomData()[statementsKey] = statements(nil)
	return nil
}

// exec runs commands in one round trip: the prepared statements, if prepared is not nil, or their texts.
func exec(ctx context.Context, conn *pgconn.PgConn, prepared statements, commands ...command) ([]*pgconn.Result, error) {
	if prepared == nil {
		var texts []string
		for _, c := range commands {
			text, err := c.literal()
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		return conn.Exec(ctx, strings.Join(texts, "; ")).ReadAll()
	}
	var batch pgconn.Batch
	for _, c := range commands {
		args := make([][]byte, len(c.args))
		for i, a := range c.args {
			args[i] = []byte(a)
		}
		batch.ExecStatement(prepared[c.text], args, nil, nil)
	}
	return conn.ExecBatch(ctx, &batch).ReadAll()
}
