package txn

import (
	"fmt"
	"strconv"
	"strings"
)

// Mark is a point in the log of a coordinator that belongs to the id of a transaction. The
// maker of an id keeps with it the latest mark that a coordinator has answered with, and gives
// both at every begin of that id.
//
// By the mark the coordinator tells an id that it has never seen from one whose outcome it has
// forgotten: a transaction ends at or after the mark of its id, and the coordinator knows from
// which tick on it remembers every outcome. The mark of an id must therefore not be renewed:
// with a later one, a begin that is repeated after its outcome was forgotten begins again a
// transaction that may have been committed. The zero Mark says that no mark is known; then the
// time in the id counts.
type Mark struct {
	// Epoch is the number of the cluster's life: each restore of a backup begins another
	// one; zero is the first.
	Epoch uint64
	// Tick counts the coordinator's intervals in that incarnation, from 1 on.
	Tick uint64
}

// IsZero reports whether m is the zero Mark.
func (m Mark) IsZero() bool { return m == Mark{} }

// String gives the text form: "4711", or "1795428330123.4711" in another incarnation than the
// first. The zero Mark is the empty text.
func (m Mark) String() string {
	switch {
	case m.IsZero():
		return ""
	case m.Epoch == 0:
		return strconv.FormatUint(m.Tick, 10)
	}
	return strconv.FormatUint(m.Epoch, 10) + "." + strconv.FormatUint(m.Tick, 10)
}

// ParseMark reads the text form. The empty text is the zero Mark.
func ParseMark(s string) (m Mark, err error) {
	if s == "" {
		return m, nil
	}
	life, tick, ok := strings.Cut(s, ".")
	if !ok {
		life, tick = "0", s
	}
	var errLife, errTick error
	m.Epoch, errLife = strconv.ParseUint(life, 10, 64)
	m.Tick, errTick = strconv.ParseUint(tick, 10, 64)
	if errLife != nil || errTick != nil || m.String() != s {
		return Mark{}, fmt.Errorf("%w: mark %q: give one as the answer to a begin has it", ErrInvalid, clip(s))
	}
	return m, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Mark) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMark(string(b))
	return err
}
