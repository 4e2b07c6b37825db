package sim

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// disk is what one process of a host writes: its log, the stable store of raft, and its snapshots.
// The next process gets a copy of what was on it when this one ended.
type disk struct {
	host *host
	rng  *rng

	mu          sync.Mutex // guards all below
	log         map[uint64]*raft.Log
	first, last uint64
	stable      map[string][]byte
	votes       map[string][]byte // the stable store a while ago, for Bugs.NoVotes
	snapshots   []*snapshotImage  // oldest first
	syncing     map[*[]*raft.Log]bool
	dead        bool
	slow        time.Duration // the longest sync
	onFailure   func(error)   // called with the first failure
	broken      bool          // it has failed, and does nothing more

	ended chan struct{} // closed when the process has ended
}

// snapshotImage is a snapshot.
type snapshotImage struct {
	meta raft.SnapshotMeta
	body []byte
}

func newDisk(h *host) *disk {
	return &disk{
		host: h, rng: newRNG(h.w.plan.Seed, 100+uint64(h.index)), slow: time.Millisecond,
		log: map[uint64]*raft.Log{}, stable: map[string][]byte{}, votes: map[string][]byte{}, syncing: map[*[]*raft.Log]bool{},
		ended: make(chan struct{}),
	}
}

// crash ends the process and returns the disk of the next one.
func (d *disk) crash() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	close(d.ended)
	next := newDisk(d.host)
	next.rng = d.rng
	next.log, next.first, next.last = maps.Clone(d.log), d.first, d.last
	next.stable, next.snapshots = maps.Clone(d.stable), slices.Clone(d.snapshots)
	for logs := range d.syncing {
		if d.rng.oneIn(2) {
			continue // as if the sync had not begun
		}
		if (*logs)[0].Index <= next.last {
			continue
		}
		d.host.w.countFault("unacknowledged write kept")
		next.appendLogs(*logs)
		d.host.w.logs.record(next, *logs, d.host.w.now())
	}
	bugs := d.host.w.plan.Bugs
	if bugs.NoSync && next.last > next.first+8 {
		next.cutOff(next.last-4, next.last)
	}
	if bugs.NoVotes {
		next.stable = maps.Clone(d.votes)
	}
	return next
}

// sync takes the time of a sync; false if the process has ended meanwhile.
func (d *disk) sync() bool {
	d.host.gate.pass()
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	sleep(d.rng.between(slow/10, slow))
	d.host.gate.pass()
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.dead
}

// FirstIndex implements raft.LogStore.
func (d *disk) FirstIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, nil
}

// LastIndex implements raft.LogStore.
func (d *disk) LastIndex() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, nil
}

// GetLog implements raft.LogStore.
func (d *disk) GetLog(index uint64, l *raft.Log) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.log[index]
	if found == nil {
		return d.lastSnapshotEntry(index, l)
	}
	*l = *found
	return nil
}

// lastSnapshotEntry answers for the last entry of a snapshot as raftfsm/logstore does, whose
// package doc says why. mu is held.
func (d *disk) lastSnapshotEntry(index uint64, l *raft.Log) error {
	if d.host.w.plan.Unanchored || index < 2 || d.log[index-1] != nil || d.log[index+1] == nil {
		return raft.ErrLogNotFound
	}
	i := d.snapshotAt(index)
	if i == nil {
		return raft.ErrLogNotFound
	}
	d.host.w.countFault("snapshot stood in for an entry")
	*l = raft.Log{Index: index, Term: i.meta.Term, Type: 255}
	return nil
}

// snapshotAt returns the snapshot that ends at index; nil if there is none. mu is held.
func (d *disk) snapshotAt(index uint64) *snapshotImage {
	for _, i := range d.snapshots {
		if i.meta.Index == index {
			return i
		}
	}
	return nil
}

var errOutOfOrder = errors.New("sim: log entries are out of order")

// StoreLog implements raft.LogStore.
func (d *disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (d *disk) StoreLogs(logs []*raft.Log) error {
	copies := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l
		copies[i] = &c
	}
	d.mu.Lock()
	d.syncing[&copies] = true
	d.mu.Unlock()
	alive := d.sync()
	if err := d.writeError(); err != nil {
		if d.host.diskFault.Load() == diskFull {
			d.mu.Lock()
			delete(d.syncing, &copies)
			d.mu.Unlock()
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.syncing, &copies)
	if copies[0].Index <= d.last {
		return errOutOfOrder
	}
	d.appendLogs(copies)
	if alive {
		d.host.w.logs.record(d, copies, d.host.w.now())
	}
	return nil
}

// appendLogs adds to the log. Before a gap of one entry it removes one, as logstore does. The
// caller holds mu, or is the only user of d.
func (d *disk) appendLogs(logs []*raft.Log) {
	if l := d.last; !d.host.w.plan.Unanchored && l > 0 && logs[0].Index == l+2 && d.snapshotAt(l+1) != nil {
		d.host.w.countFault("entry removed before a hole")
		d.cutOff(l, l)
	}
	for _, l := range logs {
		d.log[l.Index] = l
		d.last = max(d.last, l.Index)
		if d.first == 0 {
			d.first = l.Index
		}
	}
}

// DeleteRange implements raft.LogStore.
func (d *disk) DeleteRange(from, to uint64) error {
	d.sync()
	if err := d.writeError(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutOff(from, to)
	return nil
}

func (d *disk) cutOff(from, to uint64) {
	for i := from; i <= to; i++ {
		delete(d.log, i)
	}
	d.first, d.last = 0, 0
	for i := range d.log {
		if d.first == 0 || i < d.first {
			d.first = i
		}
		d.last = max(d.last, i)
	}
}

var errNoKey = errors.New("not found") // raft compares the text

// Set implements raft.StableStore, and as logstore does it removes the candidate of the last vote
// when the term of a vote changes. raft panics when it cannot write its term. A process that has to
// end must not get there, so Set waits for its end.
func (d *disk) Set(key, value []byte) error {
	d.sync()
	if d.writeError() != nil {
		<-d.ended
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rng.oneIn(4) {
		d.votes = maps.Clone(d.stable)
	}
	if string(key) == "LastVoteTerm" && !bytes.Equal(d.stable[string(key)], value) {
		delete(d.stable, "LastVoteCand")
	}
	d.stable[string(key)] = bytes.Clone(value)
	return nil
}

// Get implements raft.StableStore.
func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.stable[string(key)]
	if !ok {
		return nil, errNoKey
	}
	return bytes.Clone(v), nil
}

// SetUint64 implements raft.StableStore.
func (d *disk) SetUint64(key []byte, v uint64) error {
	return d.Set(key, strconv.AppendUint(nil, v, 10))
}

// GetUint64 implements raft.StableStore.
func (d *disk) GetUint64(key []byte) (uint64, error) {
	v, err := d.Get(key)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(v), 10, 64)
}

// snapshotsKept is the number of snapshots that a node keeps.
const snapshotsKept = 2

// snapshotDir is the snapshot store of a disk.
type snapshotDir struct{ *disk }

var _ raft.SnapshotStore = snapshotDir{}

// Create implements raft.SnapshotStore.
func (s snapshotDir) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.host.gate.pass()
	if s.host.diskFault.Load() != diskHealthy {
		s.host.w.countFault("snapshot cannot be written")
		return nil, errDisk
	}
	s.mu.Lock()
	id := strconv.FormatUint(term, 10) + "-" + strconv.FormatUint(index, 10) + "-" + strconv.Itoa(s.rng.n(1<<30))
	s.mu.Unlock()
	return &sink{dir: s, meta: raft.SnapshotMeta{Version: v, ID: id, Index: index, Term: term, Configuration: c.Clone(), ConfigurationIndex: at}}, nil
}

// List implements raft.SnapshotStore.
func (s snapshotDir) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var metas []*raft.SnapshotMeta
	for _, i := range slices.Backward(s.snapshots) {
		m := i.meta
		metas = append(metas, &m)
	}
	return metas, nil
}

// Open implements raft.SnapshotStore.
func (s snapshotDir) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.host.gate.pass()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.snapshots {
		if i.meta.ID == id {
			m := i.meta
			return &m, io.NopCloser(bytes.NewReader(i.body)), nil
		}
	}
	return nil, nil, errors.New("sim: no such snapshot")
}

// sink is a snapshot that is being written.
type sink struct {
	dir    snapshotDir
	meta   raft.SnapshotMeta
	buf    bytes.Buffer
	closed bool
}

// Write implements raft.SnapshotSink.
func (s *sink) Write(p []byte) (int, error) { return s.buf.Write(p) }

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.meta.ID }

// Cancel implements raft.SnapshotSink.
func (s *sink) Cancel() error {
	s.closed = true
	return nil
}

// Close implements raft.SnapshotSink.
func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.dir.sync()
	if s.dir.host.diskFault.Load() != diskHealthy {
		s.dir.host.w.countFault("snapshot cannot be written")
		return errDisk
	}
	d := s.dir.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	s.meta.Size = int64(s.buf.Len())
	i := &snapshotImage{s.meta, s.buf.Bytes()}
	if n := len(d.snapshots); d.host.w.plan.Bugs.OldSnapshot && n > 0 {
		i.body = d.snapshots[n-1].body
		i.meta.Size = int64(len(i.body))
	}
	d.snapshots = append(d.snapshots, i)
	slices.SortStableFunc(d.snapshots, func(a, b *snapshotImage) int { return int(a.meta.Index) - int(b.meta.Index) })
	d.snapshots = d.snapshots[max(0, len(d.snapshots)-snapshotsKept):]
	if !d.dead {
		d.host.w.countFault("snapshot taken")
		d.host.w.logs.recordSnapshot(i)
	}
	return nil
}
