// Package random makes ids and secrets. The core takes randomness as an argument; the packages around it
// take it from here.
package random

import (
	"crypto/rand"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TransactionID returns a new transaction id. Ids sort by the time at which they were made.
func TransactionID() txn.ID { return txn.NewID(time.Now(), entropy()) }

// SessionID returns a new id of a client session.
func SessionID() txn.SessionID { return txn.NewSessionID(time.Now(), entropy()) }

func entropy() (b [9]byte) {
	_, _ = rand.Read(b[:]) // never fails
	return b
}

// alphabet has 32 letters, none easily confused with another.
const alphabet = "abcdefghijkmnpqrstuvwxyz23456789"

// Letters returns an unguessable text of n letters and digits, each of which holds 5 random bits.
func Letters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[b[i]%byte(len(alphabet))] // 256 is a multiple of 32
	}
	return string(b)
}
