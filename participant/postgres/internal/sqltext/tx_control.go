package sqltext

import (
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// MarkSetting is a setting local to its transaction: its value, the mark, identifies a
// transaction that has no number.
const MarkSetting = "txmgr.branch"

// RejectTxControl refuses, before it is sent, a text with a statement that begins or ends a
// transaction, or, in a read-only one, resets its mark. escapes: every quoted text is read as one
// of the form E'...', as PostgreSQL does without standard_conforming_strings. A statement that it
// does not recognize is detected by the state of the connection afterwards, unless another
// transaction has begun and failed by then.
func RejectTxControl(sql string, readOnly, escapes bool) error {
	what := findTxControl(sql, readOnly, escapes)
	advice := "return nil from the function of txn.Run to commit and an error to roll back; for a part of the work use Begin of DB.Tx, which makes a savepoint"
	switch what {
	case "":
		return nil
	case setTransaction:
		advice = "set DB.TxOptions before the first use"
	case setSnapshot:
		advice = `it has to come before the first query, which is the SDK's: use another DB (New) for this transaction, with a TxOptions.BeginQuery like "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '...'"`
	case resetAll:
		advice = "it resets " + MarkSetting + ", which identifies a read-only transaction; RESET single settings by their names"
	}
	return fmt.Errorf("%w: %s was not sent: %s", txn.ErrManaged, what, advice)
}

// Statements that are refused for other reasons than that they end the transaction.
const (
	setTransaction = "SET TRANSACTION"
	setSnapshot    = "SET TRANSACTION SNAPSHOT"
	resetAll       = "RESET ALL"
)

// findTxControl returns the first words of the first statement of a text that begins or ends a
// transaction, "" if there is none.
func findTxControl(sql string, readOnly, escapes bool) string {
	var st statement
	last := strings.LastIndexByte(sql, ';')
	for at := 0; at < len(sql) && (at <= last || !st.known()); {
		rest := sql[at:]
		n := tokenLength(rest, escapes)
		at += n
		switch c := rest[0]; {
		case c == ';' && st.body:
			st.first = true
		case c == ';':
			if what := st.end(readOnly); what != "" {
				return what
			}
			st = statement{}
		case n > 1 && (c == '-' || c == '/'), strings.IndexByte(" \t\r\n\f\v", c) >= 0:
		case !st.known() || st.routine():
			st.add(upper(rest[:n]))
		}
	}
	return st.end(readOnly)
}

// tokenLength returns the length of the first token: a word, a comment, a quoted text or one byte.
func tokenLength(s string, escapes bool) int {
	switch {
	case strings.HasPrefix(s, "/*"):
		return comment(s)
	case len(s) > 1 && (s[0] == 'e' || s[0] == 'E') && s[1] == '\'':
		return 1 + escaped(s[1:])
	case letter(s[0]):
		n := 1
		for n < len(s) && (letter(s[n]) || '0' <= s[n] && s[n] <= '9' || s[n] == '$') {
			n++
		}
		return n
	case s[0] == '\'' && escapes:
		return escaped(s)
	case s[0] == '\'':
		return until(s, 1, "'")
	}
	n, _ := token(s, false)
	return n
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

// comment returns the length of a comment, in which others may be nested.
func comment(s string) int {
	depth := 0
	for n := 0; n < len(s)-1; n++ {
		switch s[n : n+2] {
		case "/*":
			depth++
			n++
		case "*/":
			n++
			if depth--; depth == 0 {
				return n + 1
			}
		}
	}
	return len(s)
}

// escaped returns the length of a quoted text in which a backslash escapes the next character,
// with its continuations on further lines.
func escaped(s string) int {
	for n := 1; n < len(s); n++ {
		switch s[n] {
		case '\\':
			n++
		case '\'':
			more := continued(s[n+1:])
			if more == 0 {
				return n + 1
			}
			n += more
		}
	}
	return len(s)
}

// continued returns the length up to and including the quote that continues a quoted text on a
// further line; 0 if the text is not continued.
func continued(s string) int {
	line := false
	for n := 0; n < len(s); n++ {
		switch {
		case s[n] == '\n' || s[n] == '\r':
			line = true
		case strings.HasPrefix(s[n:], "--"):
			n += lineComment(s[n:]) - 1
			line = true
		case s[n] == '\'' && line:
			return n + 1
		case strings.IndexByte(" \t\f\v", s[n]) < 0:
			return 0
		}
	}
	return 0
}
