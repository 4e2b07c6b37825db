package mariadb

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// FormatID marks the XA names that this package makes: "txm1" in ASCII.
const FormatID = 0x74786d31

// nativeFormat is the format of a name that is passed to MariaDB as one text.
const nativeFormat = 1

// maxPart is how many bytes MariaDB accepts in each part of a name.
const maxPart = 64

// xaName has the parts of a name in MariaDB: the global transaction, the branch, and the format,
// which does not distinguish branches.
type xaName struct {
	gtrid, bqual string
	format       uint32
}

// nameOf returns the XA name for the text form of a branch's name. A name of txmgr is divided into
// transaction and branch, a name in the form of literal is parsed, and any other text is the
// whole name of a transaction.
func nameOf(text string) (xaName, error) {
	n := xaName{gtrid: text, format: nativeFormat}
	if _, _, _, ours := txn.ParseXID(text); ours {
		at := strings.LastIndexByte(text, '_')
		n = xaName{text[:at], text[at+1:], FormatID}
	} else if literal, ok := parseLiteral(text); ok {
		n = literal
	}
	if n.gtrid == "" || len(n.gtrid) > maxPart || len(n.bqual) > maxPart {
		return xaName{}, fmt.Errorf("%w: XA name %q: MariaDB takes 1 to %d bytes", txn.ErrInvalid, clip(text), maxPart)
	}
	return n, nil
}

// text returns the form that nameOf parses as the same name.
func (n xaName) text() string {
	plain := n.gtrid
	if n.format == FormatID {
		plain += "_" + n.bqual
	}
	if back, err := nameOf(plain); err == nil && back == n && printable(plain) {
		return plain
	}
	return n.literal()
}

// literal is the name in a statement, in hexadecimal, which needs no escaping in any sql_mode and
// any character set.
func (n xaName) literal() string {
	return fmt.Sprintf("%s,%s,%d", bytesLiteral(n.gtrid), bytesLiteral(n.bqual), n.format)
}

func bytesLiteral(s string) string { return "X'" + hex.EncodeToString([]byte(s)) + "'" }

// parseLiteral parses exactly what literal returns.
func parseLiteral(s string) (n xaName, ok bool) {
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return xaName{}, false
	}
	format, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil {
		return xaName{}, false
	}
	n.format = uint32(format)
	for i, into := range []*string{&n.gtrid, &n.bqual} {
		b, err := hex.DecodeString(strings.TrimSuffix(strings.TrimPrefix(parts[i], "X'"), "'"))
		if err != nil {
			return xaName{}, false
		}
		*into = string(b)
	}
	return n, n.literal() == s
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\uFFFD' }) < 0
}

// parseRecovered parses one row of XA RECOVER FORMAT='SQL', which writes each part as quoted text
// or, if that is not possible, as X'...'. The lengths distinguish the two.
func parseRecovered(format uint32, gtridLen, bqualLen int, data string) (xaName, error) {
	n := xaName{format: format}
	rest, err := data, error(nil)
	for _, part := range []struct {
		into *string
		size int
	}{{&n.gtrid, gtridLen}, {&n.bqual, bqualLen}} {
		if *part.into, rest, err = quotedPart(rest, part.size); err != nil {
			return xaName{}, fmt.Errorf("XA RECOVER: name %q of %d and %d bytes: %w", clip(data), gtridLen, bqualLen, err)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	// A server may leave out the format if it is the default.
	if rest != "" && rest != strconv.FormatUint(uint64(format), 10) {
		return xaName{}, fmt.Errorf("XA RECOVER: name %q ends in %q, want format %d", clip(data), clip(rest), format)
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

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
