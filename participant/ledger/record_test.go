package ledger

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
)

var (
	someBranch = branch{since: time.UnixMilli(1700000000123).UTC(), changes: map[string]change{"bob": {amount: -5}, "alice": {set: true, amount: 300}}}
	someEnd    = outcomeRecord{outcome: participant.RolledBack, number: 300, at: time.Unix(1700000000, 0).UTC()}
)

// TestFormOfTheFile must never be rewritten: files hold these bytes.
func TestFormOfTheFile(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"account":  {hex.EncodeToString(account{version: 3, balance: 300}.encode()), "03d804"},
		"branch":   {hex.EncodeToString(someBranch.encode()), "f6a1abfef9620205616c69636501d80403626f620009"},
		"end":      {hex.EncodeToString(someEnd.encode()), "02ac0280c49fd50c"},
		"checksum": {hex.EncodeToString(seal(bucketLocks, []byte("alice"), []byte("xid"))), "7869642c4958ec"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func TestDecodeWhatWasEncoded(t *testing.T) {
	br, err := decodeBranch(someBranch.encode())
	if diff := cmp.Diff(someBranch, br, cmp.AllowUnexported(branch{}, change{})); diff != "" || err != nil {
		t.Errorf("branch: %v, (-want +got):\n%s", err, diff)
	}
	if e, err := decodeOutcome(someEnd.encode()); e != someEnd || err != nil {
		t.Errorf("end: %v, %v", e, err)
	}
	a := account{version: 3, balance: 300}
	if got, err := decodeAccount(a.encode()); got != a || err != nil {
		t.Errorf("account: %v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(someBranch.encode())
	f.Add(someEnd.encode())
	f.Add(account{version: 1, balance: -1}.encode())
	f.Add([]byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		if br, err := decodeBranch(b); err == nil && !bytes.Equal(br.encode(), b) {
			t.Errorf("branch %v encodes otherwise", br)
		}
		if e, err := decodeOutcome(b); err == nil {
			if again, err := decodeOutcome(e.encode()); err != nil || again != e {
				t.Errorf("end %v became %v, %v", e, again, err)
			}
		}
		if a, err := decodeAccount(b); err == nil {
			if again, err := decodeAccount(a.encode()); err != nil || again != a {
				t.Errorf("account %v became %v, %v", a, again, err)
			}
		}
	})
}

// TestFlippedBitIsNamed flips each bit of a value in the file. bbolt itself does
// not notice.
func TestFlippedBitIsNamed(t *testing.T) {
	l, path := newLedger(t)
	local(t, l, "set alice 123456789")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	value := seal(bucketAccounts, []byte("alice"), account{version: 1, balance: 123456789}.encode())
	var at []int
	for i := range whole {
		if bytes.HasPrefix(whole[i:], value) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		t.Fatal("the value is not in the file")
	}
	for bit := range 8 * len(value) {
		broken := bytes.Clone(whole)
		for _, i := range at {
			broken[i+bit/8] ^= 1 << (bit % 8)
		}
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := l.Balances(t.Context()); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d: %v, %v", bit, all, err)
		}
		if _, err := l.Local(t.Context(), "add alice 1"); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d: written over: %v", bit, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}
