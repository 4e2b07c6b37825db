package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
)

// format is the version of the file format.
const format = 1

// errNewFile: the file does not exist, or nothing was ever written to it.
var errNewFile = errors.New("the file is new")

// prepareFile makes the buckets of a new file and checks the format of an old.
func prepareFile(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketAccounts, bucketPrepared, bucketLocks, bucketOutcomes, bucketOrder} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	key := []byte("format")
	b, found, err := get(tx, bucketMeta, key)
	switch {
	case err != nil:
		return err
	case !found:
		return put(tx, bucketMeta, key, []byte{format})
	case len(b) != 1 || b[0] != format:
		return fmt.Errorf("has format %d; this version knows %d", b, format)
	}
	return nil
}

func get(tx *bbolt.Tx, bucket, key []byte) (value []byte, found bool, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return nil, false, errNewFile
	}
	sealed := b.Get(key)
	if sealed == nil {
		return nil, false, nil
	}
	value, err = unseal(bucket, key, sealed)
	return value, err == nil, err
}

func put(tx *bbolt.Tx, bucket, key, value []byte) error {
	return tx.Bucket(bucket).Put(key, seal(bucket, key, value))
}

// load reads and decodes one value.
func load[T any](tx *bbolt.Tx, bucket []byte, key string, decode func([]byte) (T, error)) (v T, found bool, err error) {
	b, found, err := get(tx, bucket, []byte(key))
	if err != nil || !found {
		return v, false, err
	}
	if v, err = decode(b); err != nil {
		return v, false, fmt.Errorf("%q in %s: %w", key, bucket, err)
	}
	return v, true, nil
}

// each reads and decodes all values of a bucket in the order of their keys.
func each[T any](tx *bbolt.Tx, bucket []byte, decode func([]byte) (T, error), visit func(key string, v T) error) error {
	b := tx.Bucket(bucket)
	if b == nil {
		return errNewFile
	}
	return b.ForEach(func(key, _ []byte) error {
		v, _, err := load(tx, bucket, string(key), decode)
		if err != nil {
			return err
		}
		return visit(string(key), v)
	})
}

func decodeText(b []byte) (string, error) { return string(b), nil }

func loadAccount(tx *bbolt.Tx, name string) (account, error) {
	a, _, err := load(tx, bucketAccounts, name, decodeAccount)
	return a, err
}

// Outcomes are forgotten when there are more than maxOutcomes, or when they are older than
// maxOutcomeAge.
const (
	maxOutcomes   = 100_000
	maxOutcomeAge = 24 * time.Hour
	// forgetPerOutcome bounds how many others one new outcome forgets.
	forgetPerOutcome = 2
)

// recordOutcome records how a branch ended and forgets the outcomes that are too many or too
// old.
func recordOutcome(tx *bbolt.Tx, xid string, outcome participant.BranchOutcome, now time.Time) error {
	order := tx.Bucket(bucketOrder)
	number, err := order.NextSequence()
	if err != nil {
		return err
	}
	e := outcomeRecord{outcome: outcome, number: number, at: now}
	if err := put(tx, bucketOutcomes, []byte(xid), e.encode()); err != nil {
		return err
	}
	if err := put(tx, bucketOrder, binary.BigEndian.AppendUint64(nil, number), []byte(xid)); err != nil {
		return err
	}
	for range forgetPerOutcome {
		if forgot, err := forgetOldest(tx, number, now); err != nil || !forgot {
			return err
		}
	}
	return nil
}

func forgetOldest(tx *bbolt.Tx, newest uint64, now time.Time) (bool, error) {
	key, _ := tx.Bucket(bucketOrder).Cursor().First()
	if key == nil {
		return false, nil
	}
	key = slices.Clone(key)
	xid, _, err := load(tx, bucketOrder, string(key), decodeText)
	if err != nil {
		return false, err
	}
	e, found, err := load(tx, bucketOutcomes, xid, decodeOutcome)
	if err != nil {
		return false, err
	}
	if found && newest-e.number < maxOutcomes && now.Sub(e.at) < maxOutcomeAge {
		return false, nil
	}
	if err := tx.Bucket(bucketOrder).Delete(key); err != nil {
		return false, err
	}
	return true, tx.Bucket(bucketOutcomes).Delete([]byte(xid))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
