package txn

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// IDPrefix begins the text form of every transaction id.
const IDPrefix = "tx_"

// IDTextLen is the length of the text form of an id: the prefix and 26 letters.
const IDTextLen = len(IDPrefix) + ulid.EncodedSize

// MaxGroup is the highest number of a raft group that an id can name: see [ID.Group].
const MaxGroup = 1<<15 - 1

// ID names a global transaction. It is a ULID, made by the client that begins the transaction
// so that the begin can be repeated safely, and never used twice. The zero ID names nothing.
// IDs are comparable and sort by the time at which they were made.
//
//	bits   0-47   letters  1-10   the wall-clock time at which it was made, in milliseconds since 1970
//	bits  48-62   letters 11-13   the raft group that keeps the transaction: see [ID.Group]
//	bits  63-127  letters 14-26   random
//
// Two ids are equal only if they were made in the same millisecond with the same 65 random bits.
// The expected number of pairs in a year is 4e-10 at 1,000 ids a second, 4e-6 at 100,000, and
// 4e-4 at a million. If it happens, the second begin is refused ([ErrConflict]), unless its
// options are equal as well: then both clients have one transaction.
type ID [16]byte

// NewID makes an id of group 0 from a wall-clock time, by which lists are sorted and nothing is
// decided, and 65 random bits: the first eight bytes of entropy, and the lowest bit of the ninth.
// Both are inputs: this package has no clock and no randomness of its own.
func NewID(at time.Time, entropy [9]byte) ID {
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(at)) // fails only past the year 10889
	u[7] = entropy[8] & 1
	copy(u[8:], entropy[:8])
	return ID(u)
}

// ParseID reads the text form. Upper case is accepted, the prefix is required. Every group is
// accepted: earlier releases, and other makers of ULIDs, have random bits there.
func ParseID(s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, IDPrefix)
	if !ok || len(rest) != ulid.EncodedSize {
		return ID{}, fmt.Errorf("%w: transaction id %q: want %q and 26 letters or digits", ErrInvalid, clip(s), IDPrefix)
	}
	u, err := ulid.ParseStrict(rest)
	if err != nil {
		return ID{}, fmt.Errorf("%w: transaction id %q: %w", ErrInvalid, clip(s), err)
	}
	if u == (ulid.ULID{}) {
		return ID{}, fmt.Errorf("%w: transaction id %q is the zero id", ErrInvalid, s)
	}
	return ID(u), nil
}

// String gives the text form, for example tx_01k9x3v7h20008qf4r6t0bz5n1.
func (id ID) String() string { return IDPrefix + id.ulid() }

// Time is the wall-clock time that the id was made with, to the millisecond.
func (id ID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()) }

// Group is the number of the raft group that the id's maker chose for the transaction, at most
// [MaxGroup]. It is part of the id, so it never changes. The ids of [NewID] have group 0. Any
// other id may have any number there, by chance; a coordinator has one group, and takes them all.
func (id ID) Group() uint16 { return binary.BigEndian.Uint16(id[6:]) >> 1 }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids by their bytes: the order in which they were made.
func (id ID) Compare(other ID) int { return ulid.ULID(id).Compare(ulid.ULID(other)) }

// MarshalText implements [encoding.TextMarshaler]. The zero id is the empty text.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	*id, err = ParseID(string(b))
	return err
}

func (id ID) ulid() string { return strings.ToLower(ulid.ULID(id).String()) }

// BranchID numbers the branches of one transaction: 1, 2, 3 and so on. Its text
// form is b1, b2, b3.
type BranchID uint32

// String gives the text form.
func (b BranchID) String() string { return "b" + strconv.FormatUint(uint64(b), 10) }

// MarshalText implements [encoding.TextMarshaler]. The zero branch, which is none,
// is the empty text.
func (b BranchID) MarshalText() ([]byte, error) {
	if b == 0 {
		return nil, nil
	}
	return []byte(b.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *BranchID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*b = 0
		return nil
	}
	*b, err = ParseBranchID(string(text))
	return err
}

// ParseBranchID reads the text form.
func ParseBranchID(s string) (BranchID, error) {
	digits, ok := strings.CutPrefix(s, "b")
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
		return 0, fmt.Errorf("%w: branch id %q: want b1, b2, b3 and so on", ErrInvalid, clip(s))
	}
	return BranchID(n), nil
}

// XIDPrefix begins every branch name that any txmgr cluster gives to a participant.
const XIDPrefix = "txm_"

// XID names one branch to its participant (the gid of PREPARE TRANSACTION):
// txm_<cluster>_<ulid>_b<n>. It is never used again, so anything found under this name belongs
// to this branch.
func XID(cluster string, id ID, b BranchID) string {
	return ClusterPrefix(cluster) + id.ulid() + "_" + b.String()
}

// ClusterPrefix begins the XID of every branch of one cluster and of no other.
func ClusterPrefix(cluster string) string { return XIDPrefix + cluster + "_" }

// ParseXID takes an XID apart. ok is false for every text that [XID] does not make: such a
// branch is not one of txmgr's and must be left alone.
func ParseXID(s string) (cluster string, id ID, b BranchID, ok bool) {
	rest, ok := strings.CutPrefix(s, XIDPrefix)
	if !ok {
		return "", ID{}, 0, false
	}
	parts := strings.Split(rest, "_")
	if len(parts) != 3 || !ValidClusterID(parts[0]) {
		return "", ID{}, 0, false
	}
	id, err := ParseID(IDPrefix + parts[1])
	if err != nil {
		return "", ID{}, 0, false
	}
	if b, err = ParseBranchID(parts[2]); err != nil {
		return "", ID{}, 0, false
	}
	return parts[0], id, b, s == XID(parts[0], id, b)
}

// ValidClusterID reports whether s can be a cluster id: 1 to 16 lower-case letters and digits.
func ValidClusterID(s string) bool {
	if len(s) == 0 || len(s) > 16 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// clip shortens hostile input for error texts.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
