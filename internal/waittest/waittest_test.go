package waittest

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failures takes what a test would fail with.
type failures struct {
	testing.TB
	text string
}

func (f *failures) Helper() {}

func (f *failures) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := &failures{}, time.Now()
		Until(f, "two seconds", func() bool { return time.Since(began) >= 2*time.Second })
		if f.text != "" || time.Since(began) > 3*time.Second {
			t.Errorf("%q after %v", f.text, time.Since(began))
		}
		if Until(f, "never", func() bool { return false }); f.text != "never: not within a minute" {
			t.Errorf("%q", f.text)
		}
	})
}

func TestNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tries := &failures{}, 0
		NoError(f, func() error {
			if tries++; tries < 3 {
				return errors.New("busy")
			}
			return nil
		})
		if f.text != "" || tries != 3 {
			t.Errorf("%q after %d tries", f.text, tries)
		}
		if NoError(f, func() error { return errors.New("down") }); f.text != "still: down" {
			t.Errorf("%q", f.text)
		}
	})
}
