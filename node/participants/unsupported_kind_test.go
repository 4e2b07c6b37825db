package participants

import (
	"errors"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// TestMySQLIsRefusedWithTheReason: MariaDB's participant would not be safe there.
func TestMySQLIsRefusedWithTheReason(t *testing.T) {
	s := &Registry{}
	_, err := s.Open(t.Context(), admin.Participant{Name: "stock", Kind: "mysql"})
	if !errors.Is(err, txn.ErrInvalid) || !strings.Contains(err.Error(), "which is of kind mariadb, was not tried on MySQL") {
		t.Error(err)
	}
}
