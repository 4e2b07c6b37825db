package naming

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
)

// learnt is a memory after one transaction.
func learnt(mark txn.Mark) *Memory {
	m := new(Memory)
	id := random.TransactionID()
	m.Begun(txn.Options{}, txn.BeginResult{ID: id, Timeout: 40 * time.Second, Mark: mark}, nil)
	m.Enlisted(txn.Branch{ID: 1, Participant: "bank", XID: txn.XID("c1", id, 1)})
	return m
}

// TestNameNeedsWhatWasLearnt: the cluster's id, the default timeout if none is given, and a mark that is young enough.
func TestNameNeedsWhatWasLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		names := func(o txn.Options, want bool, when string) {
			t.Helper()
			if _, ok := m.Name(o); ok != want {
				t.Errorf("%s: named %v, want %v", when, ok, want)
			}
		}
		names(txn.Options{Timeout: time.Second}, false, "nothing was learnt")
		id := random.TransactionID()
		m.Begun(txn.Options{Timeout: time.Second}, txn.BeginResult{ID: id, Timeout: time.Second, Mark: txn.Mark{Tick: 7}}, nil)
		names(txn.Options{Timeout: time.Second}, false, "the cluster is not known")
		m.Enlisted(txn.Branch{}) // of a refusal
		names(txn.Options{Timeout: time.Second}, false, "the cluster is not known")
		m.Enlisted(txn.Branch{XID: txn.XID("c1", id, 1)})
		names(txn.Options{Timeout: time.Second}, true, "all is known")
		names(txn.Options{}, false, "the default timeout is not known")
		m.Begun(txn.Options{}, txn.BeginResult{ID: id, Timeout: 40 * time.Second, Mark: txn.Mark{Tick: 8}}, nil)
		names(txn.Options{}, true, "all is known")

		<-time.After(maxMarkAge)
		names(txn.Options{}, true, "the mark is as old as it may be")
		<-time.After(time.Nanosecond)
		names(txn.Options{}, false, "the mark is too old")
		m.Begun(txn.Options{}, txn.BeginResult{Timeout: 40 * time.Second, Mark: txn.Mark{Tick: 7}}, nil)
		names(txn.Options{}, false, "a late answer has an older mark")
		m.Begun(txn.Options{}, txn.BeginResult{}, &txn.Error{Err: txn.ErrForgotten, Mark: txn.Mark{Tick: 5}})
		names(txn.Options{}, true, "a refusal has a mark")
		if got := m.LatestMark(); got != (txn.Mark{Tick: 5}) {
			t.Errorf("the latest mark is %v", got)
		}
	})
}

// TestNaming: the id is new, the mark the latest, the timeout the one that would be granted.
func TestNaming(t *testing.T) {
	m := learnt(txn.Mark{Epoch: 1, Tick: 7})
	one, ok := m.Name(txn.Options{Name: "order"})
	two, _ := m.Name(txn.Options{Timeout: time.Second})
	if !ok || one.Cluster != "c1" || one.Options.Name != "order" || one.Options.Timeout != 40*time.Second || one.Options.Mark != (txn.Mark{Epoch: 1, Tick: 7}) {
		t.Errorf("%+v, %v", one, ok)
	}
	if one.Options.ID.IsZero() || one.Options.ID == two.Options.ID || two.Options.Timeout != time.Second {
		t.Errorf("%+v, %+v", one, two)
	}
	m.Begun(txn.Options{}, txn.BeginResult{Timeout: 40 * time.Second, Branches: []txn.Branch{{XID: txn.XID("c2", one.Options.ID, 1)}}}, nil)
	if n, _ := m.Name(txn.Options{}); n.Cluster != "c2" {
		t.Errorf("the address leads to another cluster, and the name is of %s", n.Cluster)
	}
}

// TestAppointsIsOfTheLatestAnswer: the next begin may be answered by another coordinator, so what an earlier answer said does
// not count any more, and neither does it after a begin that was refused or has no answer.
func TestAppointsIsOfTheLatestAnswer(t *testing.T) {
	m := learnt(txn.Mark{Tick: 7})
	appoints := func(want bool, after string) {
		t.Helper()
		if n, ok := m.Name(txn.Options{}); !ok || n.Appoints != want {
			t.Errorf("after %s: named %v, appoints %v; want %v", after, ok, n.Appoints, want)
		}
	}
	appoints(false, "an answer without it")
	said := txn.BeginResult{Timeout: 40 * time.Second, Mark: txn.Mark{Tick: 8}, Appoints: true}
	for after, latest := range map[string]struct {
		answer txn.BeginResult
		err    error
	}{
		"an answer without it": {txn.BeginResult{Timeout: 40 * time.Second, Mark: txn.Mark{Tick: 9}}, nil},
		"a refusal":            {txn.BeginResult{}, &txn.Error{Err: txn.ErrForgotten, Mark: txn.Mark{Tick: 9}}},
		"no answer":            {txn.BeginResult{}, &txn.Error{Err: txn.ErrUnavailable}},
	} {
		m.Begun(txn.Options{}, said, nil)
		appoints(true, "an answer with it")
		m.Begun(txn.Options{}, latest.answer, latest.err)
		appoints(false, after)
	}
}
