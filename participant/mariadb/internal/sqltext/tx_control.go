package sqltext

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// RejectTxControl refuses, before it is sent, a statement that begins or ends a transaction. The
// server would refuse most of them, too, but not in a read-only transaction, and not XA
// statements with the branch's name.
func RejectTxControl(query string) error {
	var w [3]string
	for i := range w {
		w[i], query = word(query)
	}
	switch {
	case w[0] == "SET" && w[1] == "TRANSACTION":
		return fmt.Errorf("%w: SET TRANSACTION was not sent: set DB.TxOptions before the first use", txn.ErrManaged)
	case w[0] == "ROLLBACK" && (w[1] == "TO" || w[1] == "WORK" && w[2] == "TO"): // a savepoint
	case w[0] == "BEGIN" && w[1] == "NOT": // a block of statements
	case w[0] == "XA" && w[1] == "RECOVER": // a query
	case w[0] == "COMMIT", w[0] == "ROLLBACK", w[0] == "BEGIN", w[0] == "XA", w[0] == "START" && w[1] == "TRANSACTION":
		return fmt.Errorf("%w: %s was not sent: return nil from the function of txn.Run to commit and an error to roll back; for a part of the work use SAVEPOINT", txn.ErrManaged, w[0])
	}
	return nil
}

// word returns the first keyword of a text, after white space and comments, and the rest.
func word(s string) (keyword, rest string) {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f\v")
		begin, end := 1, "\n"
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"): // the server executes these
			s = strings.TrimLeft(s[strings.IndexByte(s, '!')+1:], "0123456789")
			continue
		case strings.HasPrefix(s, "/*"):
			begin, end = 2, "*/"
		case !strings.HasPrefix(s, "--") && !strings.HasPrefix(s, "#"):
			n := 0
			for n < len(s) && ('a' <= s[n]|0x20 && s[n]|0x20 <= 'z' || s[n] == '_') {
				n++
			}
			return strings.ToUpper(s[:n]), s[n:]
		}
		_, s, _ = strings.Cut(s[begin:], end)
	}
}

// MayEnd reports whether a statement that is not refused may still end the transaction: because it
// runs others, others follow it, or the server commits implicitly before it. The server commits
// so in a read-only transaction; in an XA transaction it refuses. A function cannot end a
// transaction.
func MayEnd(query string) bool {
	if strings.Contains(query, "/*!") || strings.Contains(query, "/*M!") {
		return true // which server versions execute the comment is not checked
	}
	first, rest := word(query)
	second, _ := word(rest)
	switch first {
	case "SET":
		lower := strings.ToLower(rest)
		for _, commits := range []string{"autocommit", "password", "role"} {
			if strings.Contains(lower, commits) {
				return true
			}
		}
		if second == "STATEMENT" {
			return true
		}
	case "ANALYZE": // of a table, otherwise
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "FORMAT"}, second) {
			return true
		}
	case "LOAD": // INDEX INTO CACHE, otherwise
		if second != "DATA" && second != "XML" {
			return true
		}
	case "": // a query in parentheses, or a prepared statement, which was checked at its prepare
		if !strings.HasPrefix(rest, "(") && rest != "" {
			return true
		}
	case "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "VALUES", "SAVEPOINT", "RELEASE", "ROLLBACK",
		"SHOW", "EXPLAIN", "DESC", "DESCRIBE", "DO", "HANDLER", "KILL", "USE", "XA":
	default:
		return true
	}
	return followed(rest)
}

// MayRunXA reports whether a text that may run further statements may run an XA statement. No
// other one ends an XA transaction: the server refuses them. An argument may be anything.
func MayRunXA(query string) bool {
	upper := strings.ToUpper(query)
	for _, word := range []string{"XA", "EXECUTE", "CALL", "?"} {
		if strings.Contains(upper, word) {
			return true
		}
	}
	return false
}

// followed reports whether a statement may be followed by another one. A semicolon in a comment
// counts, since the server may execute the comment; after the begin of a comment every semicolon
// counts, since a quote in it need not be one. So does every semicolon in a text with a
// backslash, which escapes a quote or not depending on sql_mode. A text with a question mark in
// quotes, or after the begin of a comment, counts as followed: the driver replaces it by an
// argument when it interpolates.
func followed(s string) bool {
	quotes := !strings.Contains(s, `\`)
	for at := 0; at < len(s); at++ {
		switch c := s[at]; {
		case quotes && (c == '\'' || c == '"' || c == '`'):
			n := strings.IndexByte(s[at+1:], c)
			if n < 0 || strings.IndexByte(s[at+1:at+1+n], '?') >= 0 {
				return true
			}
			at += n + 1
		case c == '#', strings.HasPrefix(s[at:], "--"), strings.HasPrefix(s[at:], "/*"):
			if strings.IndexByte(s[at:], '?') >= 0 {
				return true
			}
			quotes = false
		case c == ';' && strings.Trim(s[at:], "; \t\r\n\f\v") != "":
			return true
		}
	}
	return false
}
