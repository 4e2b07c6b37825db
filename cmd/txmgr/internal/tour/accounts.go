package tour

import (
	"fmt"
	"maps"
	"slices"
)

// book is the tour's own record of what the databases must hold: it is told the
// outcomes of transactions, and nothing else.
type book [2]map[string]int64

const (
	accounts = 100
	opening  = 100
)

func accountName(i int) string { return fmt.Sprintf("account%02d", i) }

// alice is the account that the quiet scenes use.
var alice = accountName(0)

func openingBalances() map[string]int64 {
	m := make(map[string]int64, accounts)
	for i := range accounts {
		m[accountName(i)] = opening
	}
	return m
}

// add notes that an account of a database has changed.
func (b *book) add(db int, account string, amount int64) { b[db][account] += amount }

// differences describes what is wrong; empty when all is right.
func (b *book) differences(db int, got map[string]int64) string {
	for _, a := range slices.Sorted(maps.Keys(b[db])) {
		if got[a] != b[db][a] {
			return fmt.Sprintf("%s is %d, must be %d", a, got[a], b[db][a])
		}
	}
	if len(got) != len(b[db]) {
		return fmt.Sprintf("%d accounts, must be %d", len(got), len(b[db]))
	}
	return ""
}

// sum is all the money there is.
func (b *book) sum() int64 {
	var sum int64
	for _, db := range b {
		for _, v := range db {
			sum += v
		}
	}
	return sum
}
