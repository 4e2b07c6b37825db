package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
)

// The keys under which raft stores its last vote, one after the other.
const (
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"
)

// Set stores a value. It is on the disk when Set returns nil. Set and SetUint64 share one space of keys.
//
// A new term of raft's last vote also removes the candidate of the vote before it. raft stores the
// new candidate afterwards; after a crash in between the old candidate would count as that of the
// new term, and the node would repeat that vote without checking whether the candidate lacks
// entries.
func (s *Store) Set(key, val []byte) error {
	return s.change("store a raft setting", func() (func() error, error) {
		switch {
		case len(key) == 0 || len(key) > MaxKeyBytes:
			return nil, fmt.Errorf("%w: a key of %d bytes, it must have 1 to %d", ErrLimit, len(key), MaxKeyBytes)
		case len(val) > MaxValueBytes:
			return nil, fmt.Errorf("%w: a value of %d bytes for key %q, the most is %d", ErrLimit, len(val), key, MaxValueBytes)
		}
		old, stored := s.settings[string(key)]
		if !stored && len(s.settings) == MaxKeys {
			return nil, fmt.Errorf("%w: there are %d keys, the most", ErrLimit, MaxKeys)
		}
		next := maps.Clone(s.settings)
		if string(key) == keyVoteTerm && !bytes.Equal(old, val) {
			delete(next, keyVoteCandidate)
		}
		next[string(key)] = bytes.Clone(val)
		return func() error { return s.replaceLocked(next) }, nil
	})
}

func (s *Store) replaceLocked(next map[string][]byte) error {
	if err := guard(s.path, func() error { return writeSettings(s.path, s.log.ID(), next) }); err != nil {
		return err
	}
	s.settingsSyncs.Add(syncsOfSettings)
	s.view.Lock()
	defer s.view.Unlock()
	s.settings = next
	return nil
}

// Get returns a copy of the value, or [ErrKeyNotFound].
func (s *Store) Get(key []byte) (val []byte, err error) {
	err = s.look(func() {
		if v, ok := s.settings[string(key)]; ok {
			val = append([]byte{}, v...)
		}
	})
	if err == nil && val == nil {
		return nil, ErrKeyNotFound
	}
	return val, err
}

// SetUint64 stores the number as 8 bytes, big endian; see Set.
func (s *Store) SetUint64(key []byte, val uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 returns the number, or [ErrKeyNotFound]. A value that SetUint64 did not store is an error.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("value of key %q is no number: it has %d bytes", key, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}
