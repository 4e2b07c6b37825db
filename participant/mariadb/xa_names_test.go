package mariadb

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// TestEveryNameIsListedAsItWasPrepared, whatever bytes it has.
func TestEveryNameIsListedAsItWasPrepared(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	conn, err := bank.pool.Conn(t.Context())
	check(t, err)
	defer func() { check(t, conn.Close()) }()
	bytes := rapid.OneOf(
		rapid.StringMatching(`[a-z_]{1,8}`),
		rapid.StringMatching(`['\\",X0]{1,8}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 64), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(rt *rapid.T) {
		want := xa.Name{Gtrid: bytes.Draw(rt, "gtrid"), Bqual: rapid.OneOf(rapid.Just(""), bytes).Draw(rt, "bqual"), Format: rapid.Uint32Max(1<<31-1).Draw(rt, "format")}
		for _, statement := range []string{"XA START ", "XA END ", "XA PREPARE "} {
			if _, err := conn.ExecContext(context.Background(), statement+want.Literal()); err != nil {
				rt.Fatal(statement, want, err)
			}
		}
		got, err := r.xaRecover(context.Background())
		if err != nil || len(got) != 1 || got[0] != want {
			rt.Errorf("listed as %v, %v; want %v", got, err, want)
		}
		if back, err := xa.ParseName(want.Text()); err != nil || back != want {
			rt.Errorf("%s is read back as %v, %v; want %v", want.Text(), back, err, want)
		}
		if _, err := conn.ExecContext(context.Background(), xaRollback+" "+want.Literal()); err != nil {
			rt.Fatal(err)
		}
	})
}
