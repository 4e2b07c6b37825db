package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// Buckets of the file. Tests pin the format of their contents.
var (
	bucketMeta     = []byte("meta")     // format -> 1
	bucketAccounts = []byte("accounts") // name -> account
	bucketPrepared = []byte("prepared") // xid -> branch
	bucketLocks    = []byte("locks")    // name of an account -> xid
	bucketOutcomes = []byte("ends")     // xid -> end
	bucketOrder    = []byte("order")    // number of an end, big endian -> xid
)

// ErrCorrupt: a value of the file is not what was written there.
var ErrCorrupt = errors.New("corrupt")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal adds a checksum over a value and its place.
func seal(bucket, key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(bucket, key, value))
}

// unseal verifies and removes the checksum that seal added.
func unseal(bucket, key, sealed []byte) ([]byte, error) {
	n := len(sealed) - crc32.Size
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != checksum(bucket, key, sealed[:n]) {
		return nil, fmt.Errorf("%w: checksum of %q in %s", ErrCorrupt, key, bucket)
	}
	return sealed[:n:n], nil
}

func checksum(bucket, key, value []byte) uint32 {
	place := binary.AppendUvarint(nil, uint64(len(bucket)))
	place = append(place, bucket...)
	place = binary.AppendUvarint(place, uint64(len(key)))
	place = append(place, key...)
	return crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, value)
}

// account is the state of an account. The zero account is one that was never changed.
type account struct {
	version uint64 // counts the changes
	balance int64
}

func (a account) encode() []byte {
	return binary.AppendVarint(binary.AppendUvarint(nil, a.version), a.balance)
}

func decodeAccount(b []byte) (account, error) {
	r := reader{b: b}
	a := account{version: r.uvarint(), balance: r.varint()}
	return a, r.end()
}

// change is what a branch does to one account: set it, or add to it.
type change struct {
	set    bool
	amount int64
}

// branch is a prepared branch.
type branch struct {
	since   time.Time // to the millisecond
	changes map[string]change
}

// accounts returns the names of the changed accounts in their order.
func (br branch) accounts() []string { return sortedKeys(br.changes) }

func (br branch) encode() []byte {
	b := binary.AppendVarint(nil, br.since.UnixMilli())
	b = binary.AppendUvarint(b, uint64(len(br.changes)))
	for _, name := range br.accounts() {
		c := br.changes[name]
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		set := byte(0)
		if c.set {
			set = 1
		}
		b = append(b, set)
		b = binary.AppendVarint(b, c.amount)
	}
	return b
}

func decodeBranch(b []byte) (branch, error) {
	r := reader{b: b}
	br := branch{since: time.UnixMilli(r.varint()).UTC(), changes: map[string]change{}}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		name := string(r.bytes(r.uvarint()))
		set := r.bytes(1)
		br.changes[name] = change{set: len(set) == 1 && set[0] == 1, amount: r.varint()}
	}
	if err := r.end(); err != nil {
		return branch{}, err
	}
	if !slices.Equal(br.encode(), b) {
		return branch{}, fmt.Errorf("%w: not in its only form", ErrCorrupt)
	}
	return br, nil
}

// outcomeRecord is how a branch ended. Outcomes are numbered in the order in which they come.
type outcomeRecord struct {
	outcome participant.BranchOutcome
	number  uint64
	at      time.Time // to the second
}

func (e outcomeRecord) encode() []byte {
	b := append([]byte(nil), byte(e.outcome))
	b = binary.AppendUvarint(b, e.number)
	return binary.AppendVarint(b, e.at.Unix())
}

func decodeOutcome(b []byte) (outcomeRecord, error) {
	r := reader{b: b}
	var e outcomeRecord
	if kind := r.bytes(1); len(kind) == 1 {
		e.outcome = participant.BranchOutcome(kind[0])
	}
	e.number = r.uvarint()
	e.at = time.Unix(r.varint(), 0).UTC()
	if err := r.end(); err != nil {
		return outcomeRecord{}, err
	}
	if e.outcome != participant.Committed && e.outcome != participant.RolledBack {
		return outcomeRecord{}, fmt.Errorf("%w: end %d", ErrCorrupt, e.outcome)
	}
	return e, nil
}

// reader reads what the encoders wrote. After the first error it reads zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) fail() {
	r.b, r.err = nil, fmt.Errorf("%w: value is cut off", ErrCorrupt)
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) != 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(r.b))
	}
	return r.err
}
