package logstore

import (
	"bytes"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// rewriteMeta changes the newest meta page and makes its checksum right again.
func rewriteMeta(file []byte, change func(meta []byte)) {
	newest := file[newestMeta(file)*pageSize+pageHeader:]
	change(newest)
	sum := fnv.New64a()
	sum.Write(newest[:56])
	order.PutUint64(newest[56:], sum.Sum64())
}

func TestOpenForeign(t *testing.T) {
	bolt := func(name string, noFreelistSync bool) []byte {
		path := filepath.Join(t.TempDir(), "x")
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: noFreelistSync})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte(name))
			return errors.Join(err, b.Put([]byte("k"), []byte("v")))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	future := sample(t)
	rewriteMeta(future, func(meta []byte) { order.PutUint32(meta[4:], 3) })
	wide := sample(t)
	rewriteMeta(wide, func(meta []byte) { order.PutUint32(meta[8:], 1<<30) })
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty":                  {nil, ErrNotLogStore},
		"text":                   {[]byte("hello, world\n"), ErrNotLogStore},
		"long text":              {[]byte(strings.Repeat("hello, world\n", 10_000)), ErrNotLogStore},
		"zeros":                  {make([]byte, 1<<16), ErrNotLogStore},
		"bbolt of others":        {bolt("jobs", true), ErrNotLogStore},
		"bbolt with a free list": {bolt("jobs", false), ErrNotLogStore},
		"bbolt with a meta":      {bolt("meta", true), ErrNotLogStore},
		"newer bbolt":            {future, ErrCorrupt},
		"absurd page size":       {wide, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			if err := openSame(t, c.file); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestOpenFutureVersion(t *testing.T) {
	path := newPath(t)
	closeStore(t, open(t, path, Options{}))
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		sealed, _ := seal(keyFormat, encodeFormat(2))
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Delete(keyRecord), meta.Put(keyFormat, sealed)) // anything else may differ
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v, want ErrVersion", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the refused file was changed (%v)", err)
	}
	if err := os.Remove(path); err != nil { // or the check at the end of the test finds it
		t.Fatal(err)
	}
	closeStore(t, open(t, path, Options{}))
}
