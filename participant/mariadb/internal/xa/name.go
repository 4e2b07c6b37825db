package xa

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/txn"
)

// FormatID marks the XA names of txmgr's branches: "txm1" in ASCII.
const FormatID = 0x74786d31

// nativeFormat is the format of a name that is passed to MariaDB as one text.
const nativeFormat = 1

// maxPart is how many bytes MariaDB accepts in each part of a name.
const maxPart = 64

// Name has the parts of a name in MariaDB: the global transaction, the branch, and the format,
// which does not distinguish branches.
type Name struct {
	Gtrid, Bqual string
	Format       uint32
}

// ParseName returns the XA name for the text form of a branch's name. A name of txmgr is divided into
// transaction and branch, a name in the form of Literal is parsed, and any other text is the
// whole name of a transaction.
func ParseName(text string) (Name, error) {
	n := Name{Gtrid: text, Format: nativeFormat}
	if _, _, _, ours := txn.ParseXID(text); ours {
		at := strings.LastIndexByte(text, '_')
		n = Name{text[:at], text[at+1:], FormatID}
	} else if literal, ok := parseLiteral(text); ok {
		n = literal
	}
	if n.Gtrid == "" || len(n.Gtrid) > maxPart || len(n.Bqual) > maxPart {
		return Name{}, fmt.Errorf("%w: XA name %q: MariaDB takes 1 to %d bytes", txn.ErrInvalid, excerpt.Of(text), maxPart)
	}
	return n, nil
}

// Text returns the form that ParseName parses as the same name.
func (n Name) Text() string {
	plain := n.Gtrid
	if n.Format == FormatID {
		plain += "_" + n.Bqual
	}
	if back, err := ParseName(plain); err == nil && back == n && printable(plain) {
		return plain
	}
	return n.Literal()
}

// Literal is the name in a statement, in hexadecimal, which needs no escaping in any sql_mode and
// any character set.
func (n Name) Literal() string {
	return fmt.Sprintf("%s,%s,%d", BytesLiteral(n.Gtrid), BytesLiteral(n.Bqual), n.Format)
}

// BytesLiteral is a text in a statement, in hexadecimal.
func BytesLiteral(s string) string { return "X'" + hex.EncodeToString([]byte(s)) + "'" }

// parseLiteral parses exactly what Literal returns.
func parseLiteral(s string) (n Name, ok bool) {
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return Name{}, false
	}
	format, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil {
		return Name{}, false
	}
	n.Format = uint32(format)
	for i, into := range []*string{&n.Gtrid, &n.Bqual} {
		b, err := hex.DecodeString(strings.TrimSuffix(strings.TrimPrefix(parts[i], "X'"), "'"))
		if err != nil {
			return Name{}, false
		}
		*into = string(b)
	}
	return n, n.Literal() == s
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\uFFFD' }) < 0
}

// ParseRecovered parses one row of XA RECOVER FORMAT='SQL', which writes each part as quoted text
// or, if that is not possible, as X'...'. The lengths distinguish the two.
func ParseRecovered(format uint32, gtridLen, bqualLen int, data string) (Name, error) {
	n := Name{Format: format}
	rest, err := data, error(nil)
	for _, part := range []struct {
		into *string
		size int
	}{{&n.Gtrid, gtridLen}, {&n.Bqual, bqualLen}} {
		if *part.into, rest, err = quotedPart(rest, part.size); err != nil {
			return Name{}, fmt.Errorf("XA RECOVER: name %q of %d and %d bytes: %w", excerpt.Of(data), gtridLen, bqualLen, err)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	// A server may leave out the format if it is the default.
	if rest != "" && rest != strconv.FormatUint(uint64(format), 10) {
		return Name{}, fmt.Errorf("XA RECOVER: name %q ends in %q, want format %d", excerpt.Of(data), excerpt.Of(rest), format)
	}
	return n, nil
}

func quotedPart(s string, size int) (part, rest string, err error) {
	switch {
	case size < 0 || size > maxPart:
		return "", "", fmt.Errorf("a part has %d bytes", size)
	case size == 0 && (s == "" || s[0] >= '0' && s[0] <= '9'):
		return "", s, nil // left out
	}
	quoted, binary := strings.CutPrefix(s, "X")
	length := size
	if binary {
		length = 2 * size
	}
	if len(quoted) < length+2 || quoted[0] != '\'' || quoted[length+1] != '\'' {
		return "", "", fmt.Errorf("a part of %d bytes is not in quotes", size)
	}
	part, rest = quoted[1:length+1], quoted[length+2:]
	if binary {
		b, err := hex.DecodeString(part)
		return string(b), rest, err
	}
	return part, rest, nil
}

// Readable is [Name.Literal] in readable form, if the bytes allow it.
func (n Name) Readable() string {
	return fmt.Sprintf("%s,%s,%d", ReadableBytes(n.Gtrid), ReadableBytes(n.Bqual), n.Format)
}

// ReadableBytes is [BytesLiteral] in readable form, if the bytes allow it.
func ReadableBytes(s string) string {
	if strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		return "'" + s + "'"
	}
	return BytesLiteral(s)
}
