package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// Limits of one statement, and of one transaction.
const (
	maxStatements = 64 << 10 // bytes
	maxAccount    = 64       // bytes of a name
	maxAccounts   = 1000     // that one transaction reads or changes
)

const usage = "want add ACCOUNT AMOUNT, set ACCOUNT AMOUNT, move FROM TO AMOUNT or get ACCOUNT"

// statement is one of: add, set, move, get.
type statement struct {
	verb     string
	accounts []string // one; two of move
	amount   int64    // not of get
}

// parse reads statements that are separated by ';' or line ends.
func parse(text string) ([]statement, error) {
	if len(text) > maxStatements {
		return nil, fmt.Errorf("%w: statements of %d bytes; at most %d", txn.ErrInvalid, len(text), maxStatements)
	}
	var all []statement
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		s, err := parseOne(words)
		if err != nil {
			return nil, fmt.Errorf("%w: ledger statement %q: %w", txn.ErrInvalid, strings.Join(words, " "), err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: empty ledger statement: %s", txn.ErrInvalid, usage)
	}
	return all, nil
}

func parseOne(words []string) (s statement, err error) {
	s.verb = strings.ToLower(words[0])
	arity, known := map[string]int{"add": 2, "set": 2, "move": 3, "get": 1}[s.verb]
	if !known {
		return s, fmt.Errorf("unknown verb %q; %s", words[0], usage)
	}
	words = words[1:]
	if len(words) != arity {
		return s, fmt.Errorf("%s takes %d words, not %d; %s", s.verb, arity, len(words), usage)
	}
	if s.verb != "get" {
		last := len(words) - 1
		if s.amount, err = strconv.ParseInt(words[last], 10, 64); err != nil {
			return s, fmt.Errorf("amount %q is not a whole number of at most 19 digits", words[last])
		}
		words = words[:last]
	}
	s.accounts = words
	return s, s.check()
}

func (s statement) check() error {
	for _, name := range s.accounts {
		if err := checkAccount(name); err != nil {
			return err
		}
	}
	if s.verb == "set" && s.amount < 0 {
		return fmt.Errorf("a balance cannot be below zero")
	}
	if s.verb == "move" && s.amount < 0 {
		return fmt.Errorf("the amount of a move cannot be below zero; move the other way")
	}
	if s.verb == "move" && s.accounts[0] == s.accounts[1] {
		return fmt.Errorf("moves from %s to itself", s.accounts[0])
	}
	return nil
}

func checkAccount(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@"
	if name == "" || len(name) > maxAccount || strings.Trim(name, allowed) != "" {
		return fmt.Errorf("account name %q: want 1 to %d letters, digits or any of - _ . : / @", name, maxAccount)
	}
	return nil
}
