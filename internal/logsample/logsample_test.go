package logsample

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneLineAMinute for each key, with the number of suppressed ones.
func TestOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Minute, 1)
		for i := range 5 {
			if ok, _ := s.Allow("a"); ok != (i == 0) {
				t.Errorf("line %d: %t", i, ok)
			}
		}
		if ok, _ := s.Allow("b"); !ok {
			t.Error("another key was suppressed")
		}
		<-time.After(time.Minute)
		if ok, suppressed := s.Allow("a"); !ok || suppressed != 4 {
			t.Errorf("a minute later: %t, %d", ok, suppressed)
		}
	})
}

// TestManyLinesASecond: a second later, as many are allowed again.
func TestManyLinesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(10, 10)
		allowed := 0
		for range 25 {
			if ok, _ := s.Allow(""); ok {
				allowed++
			}
		}
		if allowed != 10 {
			t.Errorf("%d were allowed", allowed)
		}
		<-time.After(time.Second)
		if ok, suppressed := s.Allow(""); !ok || suppressed != 15 {
			t.Errorf("a second later: %t, %d", ok, suppressed)
		}
		if _, suppressed := s.Allow(""); suppressed != 0 {
			t.Errorf("counted twice: %d", suppressed)
		}
	})
}

// TestKeysAreBounded: keys that others choose cannot fill memory, nor silence later ones for longer than
// a minute.
func TestKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Minute, 1)
		allowed := 0
		for i := range 10 * maxKeys {
			if ok, _ := s.Allow(fmt.Sprint(i)); ok {
				allowed++
			}
		}
		if len(s.lines) > maxKeys+1 || allowed > maxKeys+1 {
			t.Errorf("%d keys kept, %d lines allowed", len(s.lines), allowed)
		}
		<-time.After(time.Minute)
		if ok, _ := s.Allow("new"); !ok || len(s.lines) != 1 {
			t.Errorf("a minute later: %t, %d keys", ok, len(s.lines))
		}
	})
}
