package adaptive

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCloseLeavesNoGoroutine, neither of the controller nor of a worker.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p, err := New(Config{Optimizer: Fixed(2)})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		submit(t, p, func() error { return nil })
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
