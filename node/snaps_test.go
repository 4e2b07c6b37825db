package node

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// memorySnapshots keeps the latest snapshot that was written to its end. raft's own store in memory shows one that is being
// written, to whoever sends it meanwhile.
type memorySnapshots struct {
	mu     sync.Mutex
	latest *memorySink // never changes any more; nil if there is none
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
	if m.latest == nil {
		return nil, nil
	}
	meta := m.latest.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

func (m *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest == nil || m.latest.meta.ID != id {
		return nil, nil, fmt.Errorf("open snapshot %s: not the latest", id)
	}
	meta := m.latest.meta
	return &meta, io.NopCloser(bytes.NewReader(m.latest.Bytes())), nil
}

func (s *memorySink) ID() string    { return s.meta.ID }
func (s *memorySink) Cancel() error { return nil }

func (s *memorySink) Close() error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.meta.Size = int64(s.Len())
	s.store.latest = s
	return nil
}
