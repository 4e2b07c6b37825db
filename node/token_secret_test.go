package node

import (
	"testing"

	"github.com/txmgr/txmgr/txn/admin"
)

// TestSecretCountsToItsLastLetter: a secret with one missing letter is
// worthless.
func TestSecretCountsToItsLastLetter(t *testing.T) {
	n := open(t, t.TempDir())
	_, secret, err := n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := n.AuthenticateToken(secret); !ok {
		t.Fatal("the secret itself is refused")
	}
	for i := range secret {
		wrong := []byte(secret)
		if wrong[i] = 'a'; secret[i] == 'a' {
			wrong[i] = 'b'
		}
		if got, ok := n.AuthenticateToken(string(wrong)); ok {
			t.Errorf("letter %d of %d does not count: it admits %q", i+1, len(secret), got.Name)
		}
	}
}
