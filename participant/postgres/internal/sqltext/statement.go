package sqltext

import "strings"

// statement is the parsed part of a statement: enough to determine whether it begins or ends a
// transaction, and where it ends itself. The body of an SQL routine, between BEGIN ATOMIC and
// END, has statements of its own. Its END stands where one of these would begin, and nowhere
// else: PostgreSQL has no statement END in a body.
type statement struct {
	words []string // the first words, at most enoughWords
	depth int      // of parentheses
	begin bool     // the last word was BEGIN
	body  bool     // in the body of a routine
	first bool     // in the body: at the beginning of a statement
}

// enoughWords is how many words identify a statement: CREATE OR REPLACE FUNCTION.
const enoughWords = 4

// known reports whether further words matter only for a routine.
func (st *statement) known() bool { return len(st.words) == enoughWords }

func (st *statement) add(word string) {
	if st.body {
		st.body = !st.first || word != "END"
		st.first = false
		return
	}
	if !st.known() {
		st.words = append(st.words, word)
	}
	switch word {
	case "(":
		st.depth++
	case ")":
		st.depth--
	case "ATOMIC": // a parameter, in parentheses, may have these two for its name and type
		st.body = st.begin && st.depth == 0 && st.routine()
		st.first = st.body
	}
	st.begin = word == "BEGIN"
}

// routine reports whether it is CREATE FUNCTION or CREATE PROCEDURE.
func (st *statement) routine() bool {
	w := st.words
	if len(w) == enoughWords && w[1] == "OR" && w[2] == "REPLACE" {
		w = w[2:]
	}
	return len(w) > 1 && st.words[0] == "CREATE" && (w[1] == "FUNCTION" || w[1] == "PROCEDURE")
}

// end returns the first words of the statement if it begins or ends a transaction.
func (st *statement) end(readOnly bool) string {
	var w [enoughWords]string
	copy(w[:], st.words)
	switch w[0] {
	case "COMMIT", "END", "ABORT", "BEGIN":
		return w[0]
	case "ROLLBACK":
		if w[1] == "TO" || (w[1] == "WORK" || w[1] == "TRANSACTION") && w[2] == "TO" {
			return "" // a savepoint
		}
		return w[0]
	case "START", "PREPARE":
		if w[1] == "TRANSACTION" {
			return w[0] + " " + w[1]
		}
	case "SET":
		rest := w[1:]
		if w[1] == "LOCAL" || w[1] == "SESSION" {
			rest = w[2:]
		}
		switch {
		case rest[0] == "TRANSACTION" && rest[1] == "SNAPSHOT":
			return setSnapshot
		case rest[0] == "TRANSACTION":
			return setTransaction
		}
	case "RESET":
		if w[1] == "ALL" && readOnly {
			return resetAll
		}
	}
	return ""
}

// upper converts a word to upper case if it is in ASCII, as all PostgreSQL's key words are.
func upper(word string) string {
	for i := range len(word) {
		if word[i] >= 0x80 {
			return word
		}
	}
	return strings.ToUpper(word)
}
