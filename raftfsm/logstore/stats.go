package logstore

import (
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// Stats holds figures of a store at one moment.
type Stats struct {
	FileBytes int64 // size of the file
	FreeBytes int64 // part of it that new entries can use before the file grows
	Entries   uint64
	First     uint64 // index, 0 when the log is empty
	Last      uint64 // index, 0 when the log is empty
	Commit    uint64 // commit index stored with the last entries

	// Commits counts the transactions since Open. Each costs two fdatasync; growing the file, which it does in
	// steps of up to 16 MiB, costs one fsync more.
	Commits uint64

	// Compaction is why Open could not compact a file that needed it, nil if there was no error.
	// The store works on.
	Compaction error
}

// Stats returns the present figures.
func (s *Store) Stats() (Stats, error) {
	st := Stats{
		Entries: s.committed.entries.Load(), First: s.committed.first.Load(), Last: s.committed.last.Load(),
		Commit: s.committed.commit.Load(), Commits: s.committed.count.Load(), Compaction: s.compactErr,
	}
	err := s.view("read its own size", func(tx *bbolt.Tx) error {
		info, err := os.Stat(s.path)
		if err != nil {
			return fmt.Errorf("the file is gone: %w", err)
		}
		bolt := s.db.Stats()
		free := int64(bolt.FreePageN+bolt.PendingPageN) * int64(s.db.Info().PageSize)
		st.FileBytes = info.Size()
		st.FreeBytes = st.FileBytes - tx.Size() + free
		return nil
	})
	return st, err
}
