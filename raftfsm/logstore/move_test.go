package logstore

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// formatOneFile returns a file that a program of format 1 has written: what fill stores, entries and settings together.
func formatOneFile(t testing.TB) []byte {
	t.Helper()
	packed, err := os.Open("testdata/log_v1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMove: the entries and settings of a file of format 1 are there afterwards, with the hole and the commit index.
func TestMove(t *testing.T) {
	path := newPath(t)
	writeFile(t, path, formatOneFile(t))
	if err := openDamaged(t, path); err != nil {
		t.Fatal(err)
	}
	if values, _, err := readSettings(path, time.Second); err != nil || len(values) != 2 {
		t.Errorf("settings of the new format: %q, %v", values, err)
	}
}

// TestMoveAfterBitFlip: a damaged file of format 1 is refused and left as it is, or all of it is moved.
func TestMoveAfterBitFlip(t *testing.T) {
	file := formatOneFile(t)
	path := newPath(t)
	want := map[uint64][]byte{}
	for _, l := range sampleLogs {
		want[l.Index] = appendEntry(nil, l)
	}
	step := 211
	if testing.Short() {
		step = 1111
	}
	found, harmless := 0, 0
	writeFile(t, path, file)
	for bit := 0; bit < len(file)*8; bit += step {
		writeByte(t, path, bit/8, file[bit/8]^1<<(bit%8))
		n := 0
		r, err := readFormatOne(path, time.Second, func(index uint64, v []byte) error {
			if n++; !bytes.Equal(v, want[index]) {
				t.Errorf("bit %d of byte %d: entry %d is silently wrong", bit%8, bit/8, index)
			}
			return nil
		})
		switch {
		case err != nil:
			if found++; !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotLogStore) {
				t.Fatalf("bit %d of byte %d: unclear error: %v", bit%8, bit/8, err)
			}
		case n != len(sampleLogs) || r.found.commit != 125 || r.found.stable != 2:
			t.Fatalf("bit %d of byte %d: silently wrong: %d entries, %+v", bit%8, bit/8, n, r.found)
		default:
			harmless++
		}
		writeByte(t, path, bit/8, file[bit/8])
	}
	t.Logf("%d flips found, %d harmless (unused bytes)", found, harmless)
	if found < harmless/4 {
		t.Errorf("only %d flips found", found)
	}
}

// TestMoveRefusesDamage: nothing is changed, nothing is left.
func TestMoveRefusesDamage(t *testing.T) {
	file := formatOneFile(t)
	value := appendEntry(nil, entry(140, 3, 90))
	at := bytes.Index(file, value)
	if at < 0 {
		t.Fatal("entry 140 not found")
	}
	for at := at; ; {
		file[at+50] ^= 1
		next := bytes.Index(file, value)
		if at = next; next < 0 {
			break
		}
	}
	path := newPath(t)
	writeFile(t, path, file)
	var where *CorruptError
	if err := openDamaged(t, path); !errors.As(err, &where) || where.Key != "index 140" {
		t.Errorf("%v, want the place", err)
	}
	if all := contentsOf(t, path); len(all) != 1 {
		t.Errorf("%d files are left", len(all))
	}
}

// TestKillMove: a move that is cut off before each of its system calls is made again, or complete.
func TestKillMove(t *testing.T) {
	needStrace(t)
	file := formatOneFile(t)
	cut := 0
	for _, call := range []string{"openat", "pwrite64", "ftruncate", "fdatasync", "fsync", "mkdirat", "renameat,rename,renameat2", "unlinkat"} {
		for when := 1; ; when++ {
			path := newPath(t)
			writeFile(t, path, file)
			p := start(t, modeHold, path, traceKill(call, when)...)
			if err := p.end(); err == nil {
				break
			}
			if when > 80 {
				t.Fatalf("%s: the child still dies at call %d:\n%s", call, when, p.text)
			}
			cut++
			if err := openDamaged(t, path); err != nil {
				t.Errorf("%s at call %d: %v", call, when, err)
			}
		}
	}
	if cut < 20 {
		t.Errorf("only %d points", cut)
	}
	t.Logf("cut off at %d points", cut)
}

// TestMoveBesideAnotherLog: a file of format 1 that was put beside segments with other entries is refused.
func TestMoveBesideAnotherLog(t *testing.T) {
	path := newPath(t)
	writeFile(t, path, formatOneFile(t))
	s := open(t, path, Options{})
	store(t, s, entry(151, 3, 20))
	closeStore(t, s)
	writeFile(t, path, formatOneFile(t)) // as from a copy that was made before
	for range 2 {
		if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "format 1") {
			t.Errorf("%v, want ErrCorrupt", err)
		}
	}
	writeFile(t, path+"2", nil)
	if err := errors.Join(os.Remove(path), os.RemoveAll(path+suffixSegments), os.Remove(path+"2")); err != nil {
		t.Fatal(err)
	}
}

// TestMoveDamagedMetaPage: whichever of the two meta pages is the newer one, bbolt would go on with the other.
func TestMoveDamagedMetaPage(t *testing.T) {
	for page := range 2 {
		file := formatOneFile(t)
		file[page*pageSize+pageHeader+40] ^= 2
		path := newPath(t)
		writeFile(t, path, file)
		if err := openDamaged(t, path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("meta page %d", page)) {
			t.Errorf("meta page %d: %v", page, err)
		}
	}
}

// TestOlderProgramRefuses: a program that knows format 1 alone finds another version where it looks for it.
func TestOlderProgramRefuses(t *testing.T) {
	path := sample(t)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		format, _, err := unseal(keyFormat, tx.Bucket(bucketMeta).Get(keyFormat))
		if version, ok := decodeFormat(format); !ok || version != formatTwo {
			t.Errorf("version %d, %v", version, ok)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
