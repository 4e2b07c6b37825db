package connect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// Redact replaces a connection error that may contain a part of a password. A password that
// was not quoted is split into words, which the server takes for parameters and repeats.
func Redact(err error) error {
	connect := (*pgconn.ConnectError)(nil)
	if !errors.As(err, &connect) {
		return err
	}
	if state := repeatedParameter(connect); state != "" {
		return fmt.Errorf("connect: the server refuses a parameter of the connection string (%s; it is not shown because it may be part of a password); try it with psql", state)
	}
	return err
}

// repeatedParameter returns the SQLSTATE of an error that repeats parameters, "" if there is
// none. The error joins one for each address that was tried.
func repeatedParameter(err error) string {
	if pg, ok := err.(*pgconn.PgError); ok {
		switch {
		case pg.Code == sqlstate.NotFound, pg.Code == sqlstate.Invalid, strings.Contains(pg.Message, "parameter"):
			return pg.Code
		}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return repeatedParameter(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			if state := repeatedParameter(one); state != "" {
				return state
			}
		}
	}
	return ""
}
