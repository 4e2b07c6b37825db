package ledger

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// BenchmarkBranch prepares and commits branches on accounts of their own: two
// durable steps each.
func BenchmarkBranch(b *testing.B) {
	for _, parallel := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("sessions=%d", parallel), func(b *testing.B) {
			s := newStore(filepath.Join(b.TempDir(), "ledger.db"))
			var n atomic.Int64
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				me := n.Add(1)
				for i := 0; pb.Next(); i++ {
					one := newBranchTx(s, fmt.Sprintf("x%d-%d", me, i))
					if _, err := one.do(b.Context(), statement{"add", []string{fmt.Sprint("account", me)}, 1}); err != nil {
						b.Error(err)
					}
					if vote, err := one.Prepare(b.Context()); vote != txn.VotePrepared {
						b.Error(vote, err)
					}
					if err := one.Commit(b.Context()); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkGet reads one account, opening the file for it.
func BenchmarkGet(b *testing.B) {
	l := New("ledger", filepath.Join(b.TempDir(), "ledger.db"))
	if _, err := l.Local(b.Context(), "set alice 1"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := l.Local(b.Context(), "get alice"); err != nil {
			b.Fatal(err)
		}
	}
}
