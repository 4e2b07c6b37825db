package logstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

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
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			writeFile(t, path, c.file)
			if err := openDamaged(t, path); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestOpenFutureVersion(t *testing.T) {
	path := sample(t)
	file := readFile(t, path)
	end := len(file) - trailerBytes
	binary.BigEndian.PutUint32(file[end+8:], 3)
	binary.BigEndian.PutUint32(file[end+12:], crc32.Checksum(file[:end+12], castagnoli))
	writeFile(t, path, file)
	if err := openDamaged(t, path); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("%v, want ErrVersion", err)
	}
}
