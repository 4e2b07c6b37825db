package demo

import (
	"fmt"
	"maps"
	"slices"
)

// expectedBalances are the balances that the databases must hold. They are derived from the
// outcomes of transactions alone.
type expectedBalances [2]map[string]int64

const (
	accounts       = 100
	openingBalance = 100
)

func accountName(i int) string { return fmt.Sprintf("account%02d", i) }

// alice is the account that the scenarios without concurrency use.
var alice = accountName(0)

func openingBalances() map[string]int64 {
	m := make(map[string]int64, accounts)
	for i := range accounts {
		m[accountName(i)] = openingBalance
	}
	return m
}

// add records a change of an account of a database.
func (b *expectedBalances) add(db int, account string, amount int64) { b[db][account] += amount }

// differences describes the differences; empty if there are none.
func (b *expectedBalances) differences(db int, got map[string]int64) string {
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

// sum is the sum of all balances.
func (b *expectedBalances) sum() int64 {
	var sum int64
	for _, db := range b {
		for _, v := range db {
			sum += v
		}
	}
	return sum
}
