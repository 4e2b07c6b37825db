package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
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
	return s.change("store a raft setting", func() (change, error) {
		switch {
		case len(key) == 0 || len(key) > MaxKeyBytes:
			return nil, fmt.Errorf("%w: a key of %d bytes, it must have 1 to %d", ErrLimit, len(key), MaxKeyBytes)
		case len(val) > MaxValueBytes:
			return nil, fmt.Errorf("%w: a value of %d bytes for key %q, the most is %d", ErrLimit, len(val), key, MaxValueBytes)
		}
		return func(tx *bbolt.Tx, next *state) error { return s.putStable(tx, next, key, val) }, nil
	})
}

func (s *Store) putStable(tx *bbolt.Tx, next *state, key, val []byte) error {
	old, err := s.dropStable(tx, next, key)
	if err == nil && string(key) == keyVoteTerm && !bytes.Equal(old, val) {
		_, err = s.dropStable(tx, next, []byte(keyVoteCandidate))
	}
	if err != nil {
		return err
	}
	sealed, sum := seal(key, val)
	next.stable++
	next.stableSum ^= sum
	return tx.Bucket(bucketStable).Put(key, sealed)
}

// dropStable removes a value and returns it; nil when there is none.
func (s *Store) dropStable(tx *bbolt.Tx, next *state, key []byte) ([]byte, error) {
	stable := tx.Bucket(bucketStable)
	sealed := stable.Get(key)
	if sealed == nil {
		return nil, nil
	}
	v, sum, err := unseal(key, sealed)
	if err != nil {
		return nil, s.stableDamage(key, err)
	}
	val := append([]byte{}, v...)
	next.stable--
	next.stableSum ^= sum
	return val, stable.Delete(key)
}

// Get returns a copy of the value, or [ErrKeyNotFound].
func (s *Store) Get(key []byte) ([]byte, error) {
	var val []byte
	err := s.view("read a raft setting", func(tx *bbolt.Tx) error {
		sealed := tx.Bucket(bucketStable).Get(key)
		if sealed == nil {
			return nil
		}
		v, _, err := unseal(key, sealed)
		if err != nil {
			return s.stableDamage(key, err)
		}
		val = append([]byte{}, v...)
		return nil
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

func (s *Store) stableDamage(key []byte, err error) error {
	return &CorruptError{File: s.path, Bucket: string(bucketStable), Key: fmt.Sprintf("%q", key), Reason: err.Error()}
}
