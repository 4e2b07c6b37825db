package bank

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// databaseState is the contents of the databases.
type databaseState struct {
	journal  map[string]map[string][]leg // by transaction and place
	balances map[string]map[int]int64    // by place and account
}

func (b *testEnv) readDatabases() (databaseState, error) {
	k := databaseState{map[string]map[string][]leg{}, map[string]map[int]int64{}}
	var errs error
	for place, db := range map[string]*sql.DB{inBank: b.bank, inSavings: b.savings, inVault: b.vaultDB} {
		errs = errors.Join(errs, k.readJournal(b.t.Context(), place, db), k.readBalances(b.t.Context(), place, db))
	}
	return k, errs
}

func (k *databaseState) readJournal(ctx context.Context, place string, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT tx, account, delta FROM journal")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		l := leg{Place: place}
		var tx string
		if err := rows.Scan(&tx, &l.Account, &l.Delta); err != nil {
			return err
		}
		if l.Account >= firstManualAccount {
			continue
		}
		if k.journal[tx] == nil {
			k.journal[tx] = map[string][]leg{}
		}
		k.journal[tx][place] = append(k.journal[tx][place], l)
	}
	return rows.Err()
}

func (k *databaseState) readBalances(ctx context.Context, place string, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, "SELECT id, balance FROM account")
	if err != nil {
		return err
	}
	defer rows.Close()
	k.balances[place] = map[int]int64{}
	for rows.Next() {
		var id int
		var balance int64
		if err := rows.Scan(&id, &balance); err != nil {
			return err
		}
		if id < firstManualAccount {
			k.balances[place][id] = balance
		}
	}
	return rows.Err()
}

// checkConsistency compares the databases with each other, with the outcomes that the clients
// reported, and with the state of the coordinator.
func (b *testEnv) checkConsistency() {
	k, err := b.readDatabases()
	if err != nil {
		b.t.Errorf("reading the books: %v", err)
		return
	}
	oneSided := map[string]bool{}
	for _, e := range b.history.all() {
		oneSided[e.ID.String()] = len(k.oneSidedLegs(e)) > 0
	}
	k.checkBalances(b.t.Errorf, oneSided)
	wrong := 0
	for _, e := range b.history.all() {
		if why := k.checkTransfer(e); why != "" {
			if wrong++; wrong <= 10 {
				b.t.Errorf("%v (%s; %s), reported as %s %s: %s", e.ID, e.Kind, e.Way, byOutcome(e), e.detail, why)
				b.explain(b.t.Context(), b.m, e.ID)
			}
		}
		delete(k.journal, e.ID.String())
	}
	for tx := range k.journal {
		b.t.Errorf("%s is in the books, and no teller announced it", tx)
	}
	if wrong > 10 {
		b.t.Errorf("%d transfers are wrong", wrong)
	}
}

// checkBalances checks the sums and balances, except for transactions of which a typed statement
// committed one branch.
func (k *databaseState) checkBalances(fail func(format string, args ...any), oneSided map[string]bool) {
	expected := map[string]map[int]int64{}
	var total, made int64
	for _, place := range places {
		expected[place] = map[int]int64{}
		for id := 1; id <= accounts; id++ {
			expected[place][id] = openingBalance
		}
		for _, balance := range k.balances[place] {
			total += balance
		}
	}
	for tx, legs := range k.journal {
		var sum int64
		for place, some := range legs {
			for _, l := range some {
				expected[place][l.Account] += l.Delta
				sum += l.Delta
			}
		}
		if oneSided[tx] {
			made += sum
		} else if sum != 0 {
			fail("%s has moved %d in sum: %v", tx, sum, legs)
		}
	}
	if want := int64(len(places)*accounts*openingBalance) + made; total != want {
		fail("there is %d in all, want %d", total, want)
	}
	if diff := cmp.Diff(expected, k.balances); diff != "" {
		fail("balances (-by journal +real):\n%s", diff)
	}
}

// complete reports whether all legs of a transfer are there, by their number.
func (k *databaseState) complete(e *entry) bool {
	n := 0
	for _, legs := range k.journal[e.ID.String()] {
		n += len(legs)
	}
	return n == len(e.Legs)
}

// checkTransfer describes what is wrong in the databases about one transfer; empty if nothing is.
func (k *databaseState) checkTransfer(e *entry) string {
	if e.Kind == kindTyped {
		return k.checkTyped(e)
	}
	there, all := k.journal[e.ID.String()], k.complete(e)
	for _, place := range places {
		want, got := e.at(place), there[place]
		byAccount := func(a, b leg) int { return a.Account - b.Account }
		slices.SortFunc(want, byAccount)
		slices.SortFunc(got, byAccount)
		if len(got) > 0 && !slices.Equal(want, got) {
			return fmt.Sprintf("%s has %v, want %v", place, got, want)
		}
	}
	switch {
	case len(there) > 0 && !all:
		return fmt.Sprintf("half of it is there: %v", there)
	case e.Kind == kindOverdraw && len(there) > 0:
		return fmt.Sprintf("an account was overdrawn: %v", there)
	}
	return e.checkAnswer(len(there) > 0)
}

// compareAll compares the coordinator's state of every transfer with the databases.
func (b *testEnv) compareAll() {
	k, err := b.readDatabases()
	if err != nil {
		b.t.Errorf("reading the books: %v", err)
		return
	}
	var mu sync.Mutex // guards b.unknown
	entries := make(chan *entry)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for e := range entries {
				there := len(k.journal[e.ID.String()]) > 0
				info, err := b.m.Get(b.t.Context(), e.ID)
				if why := k.compare(e, info, err); why != "" {
					b.t.Errorf("%v (%s; %s), reported as %s: the coordinator says: %s", e.ID, e.Kind, e.Way, byOutcome(e), why)
				}
				if there && errors.Is(err, txn.ErrNotFound) {
					mu.Lock()
					b.unknown[e.ID] = e
					mu.Unlock()
				}
			}
		})
	}
	for _, e := range b.history.all() {
		entries <- e
	}
	close(entries)
	asking.Wait()
}

// compare describes what is wrong in the coordinator's answer about one transfer; empty if nothing is.
func (k *databaseState) compare(e *entry, info txn.Info, err error) string {
	there := len(k.journal[e.ID.String()]) > 0
	switch {
	case errors.Is(err, txn.ErrNotFound) && e.mayBeUnknown(there):
		return ""
	case err != nil:
		return err.Error()
	case e.Kind == kindTyped:
		return compareTyped(e, info, there, k.complete(e))
	case info.Heuristic != 0:
		return fmt.Sprintf("heuristic %v: %+v", info.Heuristic, info.Branches)
	case e.outcome == outcomeOK && info.State != txn.Committed,
		e.outcome == outcomeRolledBack && info.State != txn.RolledBack,
		there && info.State != txn.Committed,
		!there && len(e.Legs) > 0 && info.State != txn.RolledBack:
		return fmt.Sprintf("%v, in the books: %v", info.State, there)
	}
	return ""
}
