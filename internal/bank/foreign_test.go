package bank

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/txn"
)

// prepareForeign prepares branches of others: with names of another application, and those of other
// clusters, one of whose ids begins as this cluster's does.
func (b *testEnv) prepareForeign() {
	others := []string{"other", b.cluster[:len(b.cluster)-1], b.cluster + "x"}
	gids := []string{"foreign", "4660_Zm9yZWlnbg==_YjE=", "txm_" + b.cluster} // the second as pgjdbc writes them
	for _, cluster := range others {
		gids = append(gids, txn.XID(cluster, rig.NewID(), 1))
	}
	b.exec(b.bank, "CREATE TABLE foreign_work (n int)")
	b.exec(b.savings, "CREATE TABLE foreign_work (n int)")
	for _, gid := range gids {
		conn, err := b.bank.Conn(b.t.Context())
		b.must(err)
		for _, s := range []string{"BEGIN", "INSERT INTO foreign_work VALUES (1)", "PREPARE TRANSACTION '" + gid + "'"} {
			_, err := conn.ExecContext(b.t.Context(), s)
			b.must(err)
		}
		b.must(conn.Close())
	}
	names := []string{"'foreign'", "X'f0e1d2','b1',4660"}
	for _, cluster := range others {
		xid := txn.XID(cluster, rig.NewID(), 1)
		at := strings.LastIndexByte(xid, '_')
		names = append(names, fmt.Sprintf("'%s','%s',%d", xid[:at], xid[at+1:], mariadb.FormatID))
	}
	db, err := openMariaDB(b.mariadb.DSNAs(manualUser, inSavings))
	b.must(err)
	defer db.Close()
	db.SetMaxIdleConns(0) // each branch on a connection of its own
	for _, name := range names {
		conn, err := db.Conn(b.t.Context())
		b.must(err)
		for _, s := range []string{"XA START " + name, "INSERT INTO foreign_work VALUES (1)", "XA END " + name, "XA PREPARE " + name} {
			_, err := conn.ExecContext(b.t.Context(), s)
			b.must(err)
		}
		b.must(conn.Close())
	}
	id := rig.NewID()
	status, err := b.call(b.t.Context(), "prepare", id, "b1", txn.XID("other", id, 1), vaultPayload{Legs: []leg{{inVault, firstManualAccount, -1}}})
	if err != nil || status != http.StatusOK {
		b.t.Fatalf("another cluster's prepare at the vault was answered by %d, %v", status, err)
	}
	b.foreign, err = b.prepared()
	b.must(err)
	if want := len(gids) + len(names) + 1; len(b.foreign) != want {
		b.t.Fatalf("%d foreign branches are prepared, want %d: %q", len(b.foreign), want, b.foreign)
	}
}

// prepared lists everything that is prepared anywhere, by any application.
func (b *testEnv) prepared() (all []string, err error) {
	gids, err := b.texts(b.bank, "SELECT gid FROM pg_prepared_xacts ORDER BY gid")
	if err != nil {
		return nil, err
	}
	xids, err := b.recovered()
	if err != nil {
		return nil, err
	}
	held, err := b.texts(b.vaultDB, "SELECT xid FROM txmgr_barrier WHERE state = 'prepared' ORDER BY xid")
	for name, list := range map[string][]string{inBank: gids, inSavings: xids, inVault: held} {
		for _, one := range list {
			all = append(all, name+" "+one)
		}
	}
	slices.Sort(all)
	return all, err
}

// recovered lists what is prepared in MariaDB.
func (b *testEnv) recovered() (all []string, err error) {
	rows, err := b.savings.QueryContext(b.t.Context(), "XA RECOVER FORMAT='SQL'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var format, gtrid, bqual int
		var name string
		if err := rows.Scan(&format, &gtrid, &bqual, &name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}
