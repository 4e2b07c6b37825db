package readindex

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// TestReaderAsksAQuestionOfItsOwn: a round that was under way before a reader came proves nothing
// to that reader; readers that come meanwhile share the next one.
func TestReaderAsksAQuestionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answers := 0, make(chan error, 2)
		v := New(func() error { asked++; return <-answers })
		read := func() chan error {
			c := make(chan error, 1)
			go func() { c <- v.Confirm(t.Context()) }()
			synctest.Wait()
			return c
		}
		first := read()
		second, third := read(), read()
		if asked != 1 {
			t.Fatalf("%d questions are on their way", asked)
		}
		answers <- nil
		synctest.Wait()
		if asked != 2 || len(first) != 1 || len(second)+len(third) != 0 {
			t.Fatalf("%d questions; the first reader has %d answers, the later ones %d and %d", asked, len(first), len(second), len(third))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		answers <- raft.ErrNotLeader
		for _, c := range []chan error{second, third} {
			if err := <-c; !errors.Is(err, txn.ErrUnavailable) {
				t.Errorf("a reader at a node that does not lead: %v", err)
			}
		}
		v.Close()
		if err := <-read(); !errors.Is(err, txn.ErrUnavailable) || asked != 2 {
			t.Errorf("after the end: %v, %d questions", err, asked)
		}
	})
}
