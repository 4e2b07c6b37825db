package txn

import (
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// SessionPrefix begins the text form of every id of a client session.
const SessionPrefix = "ses_"

// Limits of a client session.
const (
	// MinSessionTTL is the shortest time to live that can be asked for.
	MinSessionTTL = time.Second
	// MaxSessionTTL is the longest time to live that can be asked for.
	MaxSessionTTL = time.Hour
	// DefaultSessionTTL is the time to live of sessions that ask for none.
	DefaultSessionTTL = 16 * time.Second
	// MaxSessions is how many sessions can be open at a time.
	MaxSessions = 1_000_000
)

// SessionID names a client session: the lease on which the client's transactions depend. It is
// a ULID, made by the client that opens the session, and never used twice. The zero SessionID
// names none. Its bits are those of an [ID]. It is not the database connection of a branch, which
// [Enlistment] and [Resource] are about.
type SessionID [16]byte

// NewSessionID makes an id of group 0 from a wall-clock time, by which lists are sorted, and 65
// random bits, as [NewID] does.
func NewSessionID(at time.Time, entropy [9]byte) SessionID { return SessionID(NewID(at, entropy)) }

// ParseSessionID reads the text form. Upper case is accepted, the prefix is required, and every
// group is accepted.
func ParseSessionID(s string) (SessionID, error) {
	rest, ok := strings.CutPrefix(s, SessionPrefix)
	if !ok || len(rest) != ulid.EncodedSize {
		return SessionID{}, fmt.Errorf("%w: session id %q: want %q and 26 letters or digits", ErrInvalid, clip(s), SessionPrefix)
	}
	u, err := ulid.ParseStrict(rest)
	if err != nil {
		return SessionID{}, fmt.Errorf("%w: session id %q: %w", ErrInvalid, clip(s), err)
	}
	if u == (ulid.ULID{}) {
		return SessionID{}, fmt.Errorf("%w: session id %q is the zero id", ErrInvalid, s)
	}
	return SessionID(u), nil
}

// String gives the text form, for example ses_01k9x3v7h20008qf4r6t0bz5n1.
func (id SessionID) String() string { return SessionPrefix + ID(id).ulid() }

// Group is the number of the raft group that the id's maker chose for the session, as
// [ID.Group] is that of a transaction.
func (id SessionID) Group() uint16 { return ID(id).Group() }

// IsZero reports whether id names nothing.
func (id SessionID) IsZero() bool { return id == SessionID{} }

// Compare orders ids by their bytes: the order in which they were made.
func (id SessionID) Compare(other SessionID) int { return ID(id).Compare(ID(other)) }

// MarshalText implements [encoding.TextMarshaler]. The zero id is the empty text.
func (id SessionID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *SessionID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = SessionID{}
		return nil
	}
	*id, err = ParseSessionID(string(b))
	return err
}

// SessionOptions describe a client session to open. The zero value is valid.
type SessionOptions struct {
	// ID names the session; made by the coordinator when zero. Opening the session again with
	// the same id and equal options answers as before.
	ID SessionID
	// Name is a description for operators. At most 128 bytes.
	Name string
	// TTL is the time to live: how long the session lasts without a keep-alive. It is rounded
	// up, to 1, 2, 4, 8 seconds and so on. Defaults to [DefaultSessionTTL]; at least
	// [MinSessionTTL], at most [MaxSessionTTL].
	TTL time.Duration
}

// Check reports what is wrong with the options. The error is [ErrInvalid].
func (o SessionOptions) Check() error {
	switch {
	case len(o.Name) > MaxName:
		return fmt.Errorf("%w: session name has %d bytes; at most %d", ErrInvalid, len(o.Name), MaxName)
	case o.TTL != 0 && (o.TTL < MinSessionTTL || o.TTL > MaxSessionTTL):
		return fmt.Errorf("%w: time to live %v of a session: want %v to %v", ErrInvalid, o.TTL, MinSessionTTL, MaxSessionTTL)
	}
	return nil
}

// GrantedTTL is the time to live of a session that asks for ttl: the next of 1, 2, 4, 8 seconds
// and so on. Zero asks for [DefaultSessionTTL].
func GrantedTTL(ttl time.Duration) time.Duration {
	if ttl == 0 {
		ttl = DefaultSessionTTL
	}
	granted := MinSessionTTL
	for granted < ttl && granted < MaxSessionTTL {
		granted *= 2
	}
	return granted
}

// SessionState is the state of a client session. The zero SessionState is none.
type SessionState uint8

const (
	// SessionOpen: its transactions are not affected.
	SessionOpen SessionState = iota + 1
	// SessionClosed: the client has closed it, and its undecided transactions are rolled back
	// ([CauseClient]).
	SessionClosed
	// SessionExpired: the client did not renew it in time, and its undecided transactions are
	// rolled back ([CauseSessionExpired]).
	SessionExpired
)

var sessionStateNames = []string{"", "open", "closed", "expired"}

// String gives the name used in the API, for example "expired".
func (s SessionState) String() string { return name(sessionStateNames, uint8(s)) }

// MarshalText implements [encoding.TextMarshaler].
func (s SessionState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *SessionState) UnmarshalText(b []byte) (err error) {
	*s, err = parse[SessionState]("session state", sessionStateNames, string(b))
	return err
}

// Cause is why the undecided transactions of a session in this state are rolled back; none
// while it is open.
func (s SessionState) Cause() Cause {
	switch s {
	case SessionClosed:
		return CauseClient
	case SessionExpired:
		return CauseSessionExpired
	}
	return 0
}
