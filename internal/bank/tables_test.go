package bank

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// manualUser is the user of MariaDB for manual branches, so that their connections are not mistaken
// for others.
const manualUser = "planter"

const inVaultDB = "vaultdb"

// createDatabases creates the databases and fills them.
func (b *testEnv) createDatabases() {
	ctx := b.t.Context()
	create := b.mariadb.CreateDatabase
	if b.vaultPostgres {
		create = b.postgres.CreateDatabase
	}
	b.must(errors.Join(
		b.postgres.CreateDatabase(ctx, inBank), b.mariadb.CreateDatabase(ctx, inSavings), create(ctx, inVaultDB),
	))
	var errBank, errSavings, errVault error
	b.bank, errBank = sql.Open("pgx", b.postgres.DSN(inBank))
	b.savings, errSavings = openMariaDB(b.mariadb.DSN(inSavings))
	b.vaultDB, _, errVault = vaultConfig{Database: b.vaultDSN(), Postgres: b.vaultPostgres}.open()
	b.must(errors.Join(errBank, errSavings, errVault))
	for _, db := range []*sql.DB{b.bank, b.savings, b.vaultDB} {
		b.t.Cleanup(func() { _ = db.Close() })
	}
	data, err := b.texts(b.savings, "SELECT @@datadir")
	b.must(err)
	b.errorLog = filepath.Join(data[0], errorLog)
	journal := "CREATE TABLE journal (tx varchar(40), account int, delta bigint, PRIMARY KEY (tx, account))"
	money := []string{
		"CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
		"INSERT INTO account VALUES " + rows(accounts, func(i int) string { return fmt.Sprintf("(%d, %d)", i, openingBalance) }),
		journal,
		"CREATE TABLE plant (tx varchar(40) PRIMARY KEY)",
		"CREATE TABLE squat (id int PRIMARY KEY, n int)",
		"INSERT INTO squat VALUES (1, 0)",
	}
	b.exec(b.bank, money...)
	b.exec(b.savings, append(money,
		"CREATE USER "+manualUser+"@'127.0.0.1'", "GRANT ALL ON *.* TO "+manualUser+"@'127.0.0.1'")...)
	b.exec(b.vaultDB,
		"CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0), held bigint NOT NULL CHECK (held >= 0))",
		"INSERT INTO account VALUES "+rows(accounts, func(i int) string { return fmt.Sprintf("(%d, %d, 0)", i, openingBalance) }),
		fmt.Sprintf("INSERT INTO account VALUES (%d, 1000000, 0), (%d, 0, 0)", firstManualAccount, firstManualAccount+1),
		journal,
		"CREATE TABLE called (xid varchar(80), phase varchar(10), PRIMARY KEY (xid, phase))",
	)
}

func (b *testEnv) vaultDSN() string {
	if b.vaultPostgres {
		return b.postgres.DSN(inVaultDB)
	}
	return b.mariadb.DSN(inVaultDB)
}

func rows(n int, row func(int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = row(i + 1)
	}
	return strings.Join(all, ", ")
}

func (b *testEnv) exec(db *sql.DB, statements ...string) {
	b.t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(b.t.Context(), s); err != nil {
			b.t.Fatalf("%s: %v", s, err)
		}
	}
}

// number reads a number.
func (b *testEnv) number(db *sql.DB, query string, args ...any) (n int64, err error) {
	err = db.QueryRowContext(b.t.Context(), query, args...).Scan(&n)
	if err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return n, err
}

// texts reads a column of texts.
func (b *testEnv) texts(db *sql.DB, query string, args ...any) (all []string, err error) {
	rows, err := db.QueryContext(b.t.Context(), query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
