package logstore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/waittest"
)

func TestAnchor(t *testing.T) {
	snaps := raft.NewInmemSnapshotStore()
	s := open(t, newPath(t), Options{Snapshots: snaps})
	_, trans := raft.NewInmemTransport("n1")
	snapshot := func(index uint64) {
		t.Helper()
		sink, err := snaps.Create(1, index, 7, raft.Configuration{}, 1, trans)
		if err = errors.Join(err, sink.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(index uint64, ok bool) {
		t.Helper()
		var l raft.Log
		switch err := s.GetLog(index, &l); {
		case !ok && err != raft.ErrLogNotFound: //nolint:errorlint // raft compares it like this
			t.Errorf("%d: %+v, %v, want raft.ErrLogNotFound itself", index, l, err)
		case ok && (err != nil || l.Index != index || l.Term != 7 || l.Type != snapshotEntryType):
			t.Errorf("%d: %+v, %v, want the anchor", index, l, err)
		}
	}
	snapshot(50)
	want(50, false) // raft asks the snapshot itself while nothing follows it
	store(t, s, entries(1, 20, 1, 10)...)
	want(50, false)
	want(21, false)
	store(t, s, entries(51, 60, 7, 10)...)
	want(50, true)
	want(49, false)
	want(21, false)
	want(61, false)
	if err := s.DeleteRange(1, 20); err != nil {
		t.Fatal(err)
	}
	want(50, true)
	wantRange(t, s, 51, 60)
	if err := s.DeleteRange(1, 51); err != nil {
		t.Fatal(err)
	}
	want(50, false)
	want(51, false) // no snapshot ends here
	snapshot(51)
	want(51, true)
	snapshot(55)
	var l raft.Log
	if err := s.GetLog(55, &l); err != nil || !sameEntry(&l, entry(55, 7, 10)) {
		t.Errorf("a stored entry: %+v, %v", l, err)
	}
}

// An entry before the hole would let a leader send the snapshot entry on as an entry. The append
// that leaves a hole of one entry removes it, if that is the end of a snapshot.
func TestAnchorNotAfterEntry(t *testing.T) {
	for _, c := range []struct {
		name     string
		snapshot uint64
		anchor   bool
		gone     uint64
	}{
		{"the hole is the end of a snapshot", 21, true, 20},
		{"it is not", 19, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			snaps := raft.NewInmemSnapshotStore()
			path := newPath(t)
			s := open(t, path, Options{Snapshots: snaps})
			_, trans := raft.NewInmemTransport("n1")
			sink, err := snaps.Create(1, c.snapshot, 7, raft.Configuration{}, 1, trans)
			if err = errors.Join(err, sink.Close()); err != nil {
				t.Fatal(err)
			}
			store(t, s, entries(1, 20, 1, 10)...)
			store(t, s, entries(22, 30, 7, 10)...)
			for reopened := range 2 {
				var l raft.Log
				if err := s.GetLog(21, &l); c.anchor != (err == nil) || err == nil && (l.Type != snapshotEntryType || l.Term != 7) {
					t.Errorf("21, opened %d times: %+v, %v", reopened+1, l, err)
				}
				for i := uint64(18); i <= 22; i++ {
					if err := s.GetLog(i, &l); i != 21 && (i == c.gone) != errors.Is(err, raft.ErrLogNotFound) {
						t.Errorf("%d, opened %d times: %v", i, reopened+1, err)
					}
				}
				if reopened == 0 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = open(t, path, Options{Snapshots: snaps})
				}
			}
		})
	}
}

// lossy loses the next answers of one peer to appended entries, and counts the snapshots sent to it.
type lossy struct {
	*raft.InmemTransport
	peer      raft.ServerID
	lose      *atomic.Int64
	snapshots *atomic.Int64
	away      *atomic.Bool
}

func (l *lossy) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (l *lossy) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if id == l.peer && l.away.Load() {
		return errors.New("unreachable")
	}
	err := l.InmemTransport.AppendEntries(id, to, req, resp)
	if err == nil && id == l.peer && len(req.Entries) > 0 && resp.Success && l.lose.Add(-1) >= 0 {
		return errors.New("the answer was lost")
	}
	return err
}

func (l *lossy) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, r io.Reader) error {
	if id == l.peer {
		l.snapshots.Add(1)
	}
	return l.InmemTransport.InstallSnapshot(id, to, req, resp, r)
}

// The answer to a follower's first append after a snapshot is lost. Without the snapshot entry raft
// v1.8.0 then sends it the same snapshot ten thousand times in twenty seconds and it never catches
// up.
func TestRaftLostAnswerAfterSnapshot(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var lose, snapshots atomic.Int64
		var away atomic.Bool
		ids := []raft.ServerID{"n1", "n2", "n3"}
		var conf raft.Configuration
		var trans []*lossy
		for _, id := range ids {
			_, inmem := raft.NewInmemTransport(raft.ServerAddress(id))
			trans = append(trans, &lossy{inmem, "n3", &lose, &snapshots, &away})
			conf.Servers = append(conf.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
		}
		var rafts []*raft.Raft
		var follower *tally
		for i, id := range ids {
			for j, other := range trans {
				if i != j {
					trans[i].Connect(other.LocalAddr(), other.InmemTransport)
				}
			}
			c := raft.DefaultConfig()
			c.LocalID, c.Logger, c.TrailingLogs, c.SnapshotInterval = id, hclog.NewNullLogger(), 0, 1000*time.Hour
			if id == "n3" {
				c.HeartbeatTimeout, c.ElectionTimeout = time.Hour, time.Hour // it does not stand
			}
			sub := filepath.Join(dir, string(id))
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			snaps, err := raft.NewFileSnapshotStoreWithLogger(sub, 2, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, filepath.Join(sub, "raft.db"), Options{Snapshots: snaps})
			if err := raft.BootstrapCluster(c, s, s, snaps, trans[i], conf); err != nil {
				t.Fatal(err)
			}
			fsm := &tally{}
			r, err := raft.NewRaft(c, fsm, s, s, snaps, trans[i])
			if err != nil {
				t.Fatal(err)
			}
			rafts, follower = append(rafts, r), fsm
		}
		var leader *raft.Raft
		waittest.Until(t, "leader", func() bool {
			for _, r := range rafts {
				if r.State() == raft.Leader {
					leader = r
				}
			}
			return leader != nil
		})
		applyUpTo(t, leader, 1, 20)
		away.Store(true)
		applyUpTo(t, leader, 21, 60)
		if err := leader.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		away.Store(false)
		caughtUp := func() bool { return rafts[2].AppliedIndex() == leader.LastIndex() }
		waittest.Until(t, "n3 has installed the snapshot", caughtUp)
		snapshots.Store(0)
		lose.Store(1)
		applyUpTo(t, leader, 61, 61)
		applyUpTo(t, leader, 62, 70)
		waittest.Until(t, "n3 has caught up", func() bool { // AppliedIndex runs ahead of the state machine
			follower.mu.Lock()
			defer follower.mu.Unlock()
			return len(follower.seen) == 70
		})
		follower.wantUpTo(t, 70)
		if n := snapshots.Load(); n != 0 {
			t.Errorf("%d more snapshots were sent", n)
		}
		if lose.Load() >= 0 {
			t.Error("no answer was lost: the test has shown nothing")
		}
		for i, r := range rafts {
			if err := errors.Join(r.Shutdown().Error(), trans[i].Close()); err != nil {
				t.Error(err)
			}
		}
	})
}
