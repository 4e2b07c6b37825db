package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
)

// Text replaces invalid UTF-8, which protobuf refuses to encode: one invalid byte in a
// database's error message must not make a whole batch fail.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// TextMap is [Text] for keys and values. A map of valid texts is returned itself.
func TextMap(m map[string]string) map[string]string {
	for k, v := range m {
		if Text(k) != k || Text(v) != v {
			return sanitizedMap(m)
		}
	}
	return m
}

func sanitizedMap(m map[string]string) map[string]string {
	mended := make(map[string]string, len(m))
	for k, v := range m {
		mended[Text(k)] = Text(v)
	}
	return mended
}

// textList is [Text] for each line; its result is never nil.
func textList(lines []string) []string {
	mended := make([]string, len(lines))
	for n, l := range lines {
		mended[n] = Text(l)
	}
	return mended
}

// optional returns nil, which leaves the field out, for a zero value.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// emptyIfNil turns nil into empty, so that the JSON form is {} and not null.
func emptyIfNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func formatDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// ParseDuration reads a duration of a request; the empty text is zero. Errors
// are [txn.ErrInvalid] and name the field.
func ParseDuration(field, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %s %q: want a duration with its unit, such as 30s, 1m30s or 500ms", txn.ErrInvalid, field, excerpt(s))
	}
	if d < 0 {
		return 0, fmt.Errorf("%w: %s %q is negative", txn.ErrInvalid, field, excerpt(s))
	}
	return d, nil
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// excerpt is the beginning of a request's text, for error messages.
func excerpt(s string) string { return Text(textutil.Excerpt(s, 64)) }

// fieldReader collects the first error while fields are read, so that a message can
// be translated field by field without a check after each.
type fieldReader struct{ err error }

func (r *fieldReader) fail(field string, err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("%s: %w", field, err)
	}
}

func (r *fieldReader) duration(field, s string) txn.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	r.fail(field, err)
	return txn.Duration(d)
}

func (r *fieldReader) time(field, s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	r.fail(field, err)
	return t
}

func (r *fieldReader) id(field, s string) txn.ID {
	if s == "" {
		return txn.ID{}
	}
	id, err := txn.ParseID(s)
	r.fail(field, err)
	return id
}

func (r *fieldReader) branch(field, s string) txn.BranchID {
	if s == "" {
		return 0
	}
	b, err := txn.ParseBranchID(s)
	r.fail(field, err)
	return b
}

// enum reads one of the named values of package txn.
func (r *fieldReader) enum(field, s string, into interface{ UnmarshalText([]byte) error }) {
	r.fail(field, into.UnmarshalText([]byte(s)))
}
