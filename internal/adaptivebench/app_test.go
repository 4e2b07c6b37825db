package adaptivebench

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestPrimeIsRight(t *testing.T) {
	for n := int32(2); n < 2000; n++ {
		if got, want := prime(n), big.NewInt(int64(n)).ProbablyPrime(0); got != want {
			t.Errorf("prime(%d) is %v", n, got)
		}
	}
	if candidates != 21 {
		t.Errorf("%d candidates", candidates)
	}
	// One of the 21, as the dissertation's distribution of work has it.
	for low, want := range map[int32]int32{1_000_000: 1_000_003, 10_000_000: 10_000_019} {
		for n := low; n < low+21; n++ {
			if prime(n) != (n == want) {
				t.Errorf("prime(%d) is %v", n, !(n == want))
			}
		}
	}
}

func TestPrimeAnswersBoth(t *testing.T) {
	s, err := openPrime(1_000_000)(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 1000 {
		answer, err := s.answer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen[answer]++
	}
	// 48 of 1000 are expected; ten times the deviation to each side is never seen.
	if len(seen) != 2 || seen["true"] < 1 || seen["true"] > 120 || seen["true"]+seen["false"] != 1000 {
		t.Errorf("answers: %v", seen)
	}
}

func TestDatabaseApplications(t *testing.T) {
	t.Parallel()
	db, err := openDatabase(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.close(); err != nil {
			t.Error(err)
		}
	}()
	if idle := db.pool.Stat().TotalConns(); idle < 3 {
		t.Errorf("%d connections are open, want one for each of 3 users", idle)
	}
	write, err := openWrite(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if err := write.check(t.Context(), 0); err != nil {
		t.Errorf("before anything was written: %v", err)
	}
	began := time.Now().UTC().Truncate(time.Microsecond)
	for range 5 {
		if _, err := write.answer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := write.check(t.Context(), 5); err != nil {
		t.Error(err)
	}
	if err := write.check(t.Context(), 6); err == nil || !strings.Contains(err.Error(), "5 rows were written for 6 answers") {
		t.Errorf("a row that is missing: %v", err)
	}
	var recent int
	if err := db.pool.QueryRow(t.Context(), `SELECT count(*) FROM "Timestamp" WHERE id > $1 AND "timestamp" >= $2`, rows, began).Scan(&recent); err != nil || recent != 5 {
		t.Errorf("%d rows have the time of now, want 5: %v", recent, err)
	}

	read, err := openRead(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.wantRows(t.Context(), 0); err != nil {
		t.Errorf("the table was not made anew: %v", err)
	}
	if _, err := db.pool.Exec(t.Context(), `UPDATE "Timestamp" SET "timestamp" = '2018-12-20 15:55:02'`); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		answer, err := read.answer(t.Context())
		if err != nil || !strings.HasPrefix(answer, "2018-12-20 15:55:02") {
			t.Fatalf("read %q: %v", answer, err)
		}
	}
	// A row of another id than those of 1 to 50,000 is never read: there is none.
	if _, err := db.pool.Exec(t.Context(), `DELETE FROM "Timestamp"`); err != nil {
		t.Fatal(err)
	}
	if answer, err := read.answer(t.Context()); err == nil {
		t.Errorf("read %q of an empty table", answer)
	}
}
