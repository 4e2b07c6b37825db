package logstore

import "os"

// Stats holds figures of a store at one moment.
type Stats struct {
	FileBytes int64 // size of all files
	FreeBytes int64 // part of it that new entries can use before another file is made
	Entries   uint64
	First     uint64 // index, 0 when the log is empty
	Last      uint64 // index, 0 when the log is empty
	Commit    uint64 // commit index stored with the last entries

	// Syncs counts the fdatasync since Open for which a call waited: one for each StoreLogs, three for each Set, two for
	// each new file. Those of directories, and of a file that is filled in advance, are not counted.
	Syncs uint64
}

// Stats returns the present figures.
func (s *Store) Stats() (st Stats, err error) {
	err = s.read("read its own size", func() error {
		info, err := os.Stat(s.path)
		if err != nil {
			return err
		}
		st.FileBytes, st.FreeBytes = s.log.Bytes()+info.Size(), s.log.Free()
		st.Entries, st.Commit = s.entries.count(), s.commit
		st.First, st.Last = s.entries.bounds()
		st.Syncs = uint64(s.log.Syncs()) + s.settingsSyncs.Load()
		return nil
	})
	return st, err
}
