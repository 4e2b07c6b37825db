package sound

import "testing"

func TestCounter(t *testing.T) {
	var c Counter
	if c.Add(); c.Add() != 2 {
		t.Error("miscounted")
	}
}
