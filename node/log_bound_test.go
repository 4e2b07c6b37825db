package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/txn"
)

// memorySnapshots keeps the latest complete snapshots. raft's own store in memory also lists one
// that is still being written.
type memorySnapshots struct {
	mu     sync.Mutex
	latest []*memorySink // newest first, SnapshotsKept at most; immutable
	made   int
}

type memorySink struct {
	store *memorySnapshots
	meta  raft.SnapshotMeta
	bytes.Buffer
}

func (m *memorySnapshots) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	return &memorySink{store: m, meta: raft.SnapshotMeta{
		Version: v, ID: fmt.Sprintf("%d-%d-%d", term, index, m.made), Index: index, Term: term, Configuration: conf, ConfigurationIndex: confIndex,
	}}, nil
}

func (m *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var metas []*raft.SnapshotMeta
	for _, k := range m.latest {
		meta := k.meta
		metas = append(metas, &meta)
	}
	return metas, nil
}

func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.latest {
		if k.meta.ID == id {
			meta := k.meta
			return &meta, io.NopCloser(bytes.NewReader(k.Bytes())), nil
		}
	}
	return nil, nil, fmt.Errorf("open snapshot %s: not one of the latest", id)
}

func (s *memorySink) ID() string    { return s.meta.ID }
func (s *memorySink) Cancel() error { return nil }

func (s *memorySink) Close() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.meta.Size = int64(s.Len())
	s.store.latest = slices.Insert(s.store.latest, 0, s)
	s.store.latest = s.store.latest[:min(len(s.store.latest), storage.SnapshotsKept)]
	return nil
}

// TestEveryNodeBoundsItsLogByBytes: few large entries make every node, also followers, take
// snapshots and truncate its log. The log keeps what the second newest snapshot needs, and at
// least SnapshotBytes.
func TestEveryNodeBoundsItsLogByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const least = 64 << 10
		c := openReplicas(t, 3, func(c *Config) { c.SnapshotBytes, c.Retention = least, time.Second })
		defer c.close()
		n := c.nodes[c.leader()]
		most, cut := make([]uint64, 3), make([]bool, 3)
		for range 400 {
			b := begin(t, n, time.Hour)
			if _, err := n.Rollback(t.Context(), b.ID, strings.Repeat("r", txn.MaxReason)); err != nil {
				t.Fatal(err)
			}
			pass(100 * time.Millisecond)
			for i := range c.nodes {
				size := stored(t, c.stores[i])
				if cut[i] = cut[i] || size < most[i]; cut[i] && size < least-1<<10 {
					t.Fatalf("node %d was left %d bytes of its log; want %d at least", i, size, least)
				}
				most[i] = max(most[i], size)
			}
		}
		for i, s := range c.snaps {
			metas, err := s.List()
			if err != nil || len(metas) < 2 {
				t.Fatalf("node %d has %d snapshots, %v; want two", i, len(metas), err)
			}
			// The log since the second newest snapshot, and as much again: a snapshot is due after
			// as much log as the last one is long.
			bound := 2*max(least, uint64(metas[0].Size)) + 16<<10
			if most[i] > bound {
				t.Errorf("node %d had %d bytes of log; want %d at most", i, most[i], bound)
			}
			first, err := c.stores[i].FirstIndex()
			if err != nil || first < 2 || first > metas[1].Index+1 {
				t.Errorf("the log of node %d begins at entry %d, %v; want it cut, and the entry after snapshot %d in it", i, first, err, metas[1].Index)
			}
		}
	})
}

// TestASnapshotAfterAChangeOfMembers: a snapshot that is due is taken although no entry
// follows the change.
func TestASnapshotAfterAChangeOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		i := c.leader()
		n := c.nodes[i]
		b := begin(t, n, time.Hour)
		if err := n.raft.AddNonvoter("d", "d", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		if err := n.Snapshot(); err != nil {
			t.Fatalf("snapshot after a change of members: %v", err)
		}
		metas, err := c.snaps[i].List()
		if err != nil || len(metas) == 0 {
			t.Fatalf("%d snapshots, %v", len(metas), err)
		}
		if last, err := c.stores[i].LastIndex(); err != nil || metas[0].Index != last {
			t.Errorf("the snapshot reaches to entry %d; want %d, %v", metas[0].Index, last, err)
		}
		if got := len(metas[0].Configuration.Servers); got != 4 {
			t.Errorf("the snapshot has %d members; want 4", got)
		}
		if info, err := n.Get(t.Context(), b.ID); err != nil || info.State != txn.Active {
			t.Errorf("%v, %v", info, err)
		}
	})
}

// stored is how many bytes a log holds, each entry with its overhead.
func stored(t *testing.T, s raft.LogStore) (size uint64) {
	t.Helper()
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		size += uint64(len(l.Data) + len(l.Extensions) + 64)
	}
	return size
}

// TestBackupsAndRestartsLeaveTheLogBounded: a backup takes a snapshot, and a restart measures only
// the log after it. The log before the snapshot is truncated all the same.
func TestBackupsAndRestartsLeaveTheLogBounded(t *testing.T) {
	const bytes = 64 << 10
	dir := t.TempDir()
	for life := range 10 {
		n, err := tryOpen(t, dir, func(c *Config) { c.SnapshotBytes = bytes })
		if err != nil {
			t.Fatal(err)
		}
		for range 50 { // of some six hundred bytes each
			if _, err := n.Rollback(t.Context(), random.TransactionID(), strings.Repeat("r", txn.MaxReason)); !errors.Is(err, txn.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if _, err := n.Admin().Backup(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
		if size := stored(t, n.env.Log); size > 2*bytes {
			t.Errorf("life %d leaves %d bytes of log; want %d at most", life, size, 2*bytes)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARestartRemovesWhatAnEarlierLifeLeft: if a process ended between a snapshot and the
// truncation of the log, the next process truncates it.
func TestARestartRemovesWhatAnEarlierLifeLeft(t *testing.T) {
	dir := t.TempDir()
	for life, bytes := range []uint64{1 << 40, 8 << 10} { // the first takes no snapshot of its own
		n, err := tryOpen(t, dir, func(c *Config) { c.SnapshotBytes = bytes })
		if err != nil {
			t.Fatal(err)
		}
		first, err := n.env.Log.FirstIndex()
		if err != nil || (first > 1) != (life > 0) {
			t.Errorf("life %d: the log begins at entry %d, %v", life, first, err)
		}
		for range 2 * (1 - life) {
			for range 50 {
				if _, err := n.Rollback(t.Context(), random.TransactionID(), strings.Repeat("r", txn.MaxReason)); !errors.Is(err, txn.ErrNotFound) {
					t.Fatal(err)
				}
			}
			if err := n.raft.Snapshot().Error(); err != nil { // truncates nothing
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARestartMeasuresItsLog: all log after the newest snapshot counts, also that of earlier
// processes.
func TestARestartMeasuresItsLog(t *testing.T) {
	const bytes = 64 << 10
	dir := t.TempDir()
	conf := func(c *Config) { c.SnapshotBytes = bytes }
	for life := range 3 {
		n, err := tryOpen(t, dir, conf)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 { // of some six hundred bytes each: three processes together are enough for a snapshot
			if _, err := n.Rollback(t.Context(), random.TransactionID(), strings.Repeat("r", txn.MaxReason)); !errors.Is(err, txn.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if life == 2 {
			waittest.Until(t, "a snapshot", func() bool {
				snaps, err := n.env.Snapshots.List()
				return err == nil && len(snaps) == 1
			})
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
