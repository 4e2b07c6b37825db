package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
)

// syncChunk is how much of a snapshot is written before it is synced to the
// disk.
const syncChunk = 4 << 20

// snapshotStore is raft's, with one difference: raft syncs a snapshot as a whole when it is
// complete, and on a disk that it shares with the log every entry waits meanwhile. Here it is
// synced in small pieces.
type snapshotStore struct {
	*raft.FileSnapshotStore
	dir string
}

// Create implements raft.SnapshotStore.
func (s snapshotStore) Create(v raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(v, index, term, conf, confIndex, t)
	if err != nil {
		return nil, err
	}
	// The same file as the sink's, which the sink does not expose.
	f, err := os.OpenFile(filepath.Join(s.dir, "snapshots", sink.ID()+".tmp", "state.bin"), os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot: %w", err), sink.Cancel())
	}
	return &syncingSink{SnapshotSink: sink, file: f, closeFile: sync.OnceValue(f.Close)}, nil
}

type syncingSink struct {
	raft.SnapshotSink
	file      *os.File
	closeFile func() error // once: raft closes a sink a second time
	written   int          // since the last sync
}

func (s *syncingSink) Write(p []byte) (int, error) {
	n, err := s.SnapshotSink.Write(p)
	if s.written += n; err == nil && s.written >= syncChunk {
		s.written = 0
		err = s.file.Sync()
	}
	return n, err
}

func (s *syncingSink) Close() error { return errors.Join(s.closeFile(), s.SnapshotSink.Close()) }

func (s *syncingSink) Cancel() error { return errors.Join(s.closeFile(), s.SnapshotSink.Cancel()) }
