package node

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n, err := tryOpen(t, dir, slow)
		if err != nil {
			t.Fatal(err)
		}
		start := n.conf.wall().UTC()
		app, secret, err := n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient, Rate: 100, TTL: time.Hour, By: "ann", Reason: " for the shop "})
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^txm_[a-z2-9]{8}_[a-z2-9]{32}$`).MatchString(secret) || secret[4:12] != app.ID {
			t.Errorf("secret %q of token %q", secret, app.ID)
		}
		if app.Name != "app" || app.Role != admin.RoleClient || app.Rate != 100 || app.By != "ann" || app.Expires.Sub(start.Add(time.Hour)).Abs() > time.Second || app.Created.Sub(start).Abs() > time.Second {
			t.Errorf("%+v", app)
		}
		root, rootSecret, err := n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "root", Role: admin.RoleAdmin})
		if err != nil || !root.Expires.IsZero() {
			t.Fatal(root, err)
		}
		_, _, err = n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleReader})
		wantErr(t, "name taken", err, txn.ErrConflict, "revoke it first")
		for _, bad := range []admin.TokenRequest{{}, {Name: "x"}, {Name: " x", Role: 1}, {Name: "x\ny", Role: 1}, {Name: "x", Role: 9}, {Name: "x", Role: 1, TTL: -1}, {Name: "x", Role: 1, Reason: strings.Repeat("r", txn.MaxReason+1)}} {
			_, _, err := n.Admin().CreateToken(t.Context(), bad)
			wantErr(t, "bad request", err, txn.ErrInvalid)
		}
		bears := func(secret string, want admin.Token, ok bool) {
			t.Helper()
			got, found := n.AuthenticateToken(secret)
			if found != ok || ok && got != want {
				t.Errorf("the bearer of %.12q is %+v, %v", secret, got, found)
			}
		}
		bears(secret, app, true)
		bears(rootSecret, root, true)
		for _, no := range []string{"", "txm_", secret + "a", secret[:44] + "!", "TXM_" + secret[4:], strings.Repeat("a", 1<<20)} {
			bears(no, admin.Token{}, false)
		}
		if all, err := n.Admin().Tokens(t.Context()); err != nil || len(all) != 2 || all[0] != app || all[1] != root {
			t.Errorf("%+v, %v", all, err)
		}
		n.fsm.View(func(m *machine.Machine) {
			if got, ok := m.TokenByHash(sha256.Sum256([]byte(secret))); !ok || strings.Contains(got.ID+got.Name+got.By, secret[13:]) {
				t.Error("the secret is in the state, or its hash is not")
			}
		})
		if err := n.Close(); err != nil { // what the log holds is there after a restart
			t.Fatal(err)
		}
		n = open(t, dir, slow)
		bears(secret, app, true)
		pass(time.Hour - 2*time.Second)
		bears(secret, app, true)
		pass(2 * time.Second)
		bears(secret, app, false)
		wantErr(t, "unknown", n.Admin().RevokeToken(t.Context(), "nobody", "ann", ""), txn.ErrNotFound, "nobody")
		wantErr(t, "long reason", n.Admin().RevokeToken(t.Context(), "root", "ann", strings.Repeat("r", txn.MaxReason+1)), txn.ErrInvalid)
		if err := n.Admin().RevokeToken(t.Context(), "app", "bob", " over "); err != nil {
			t.Error(err)
		}
		if err := n.Admin().RevokeToken(t.Context(), root.ID, "bob", ""); err != nil {
			t.Error(err)
		}
		bears(rootSecret, root, false)
		if _, _, err = n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleReader}); err != nil {
			t.Error("the name of a revoked token:", err)
		}
		records, err := n.Admin().Audit(t.Context(), admin.AuditFilter{})
		var did []string
		for _, a := range records {
			did = append(did, strings.TrimSpace(a.Action+" "+a.Subject+" "+a.By+" "+a.Reason))
		}
		want := []string{"token-add app " + app.ID + " ann for the shop", "token-add root " + root.ID, "token-remove app " + app.ID + " bob over", "token-remove root " + root.ID + " bob"}
		if err != nil || len(did) != 5 || strings.Join(did[:4], "; ") != strings.Join(want, "; ") {
			t.Errorf("%q, %v", did, err)
		}
	})
}

// BenchmarkBearer is what every call pays.
func BenchmarkBearer(b *testing.B) {
	n := open(b, b.TempDir())
	_, secret, err := n.Admin().CreateToken(b.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok := n.AuthenticateToken(secret); !ok {
			b.Fatal("refused")
		}
	}
}
