package timeoutadapters

import (
	"slices"
	"testing"

	"github.com/txmgr/txmgr/timeout/timeouttest"
)

// TestContract tests each structure against the contract.
func TestContract(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.Name, func(t *testing.T) { timeouttest.Run(t, s) })
	}
}

// TestAllAgree drives them with the same histories: the same entries are due in the same ticks.
func TestAllAgree(t *testing.T) {
	all := subjects()
	t.Run("all", func(t *testing.T) { timeouttest.Same(t, all...) })
	t.Run("any distance", func(t *testing.T) {
		timeouttest.Same(t, slices.DeleteFunc(all, func(s timeouttest.Subject) bool { return s.Horizon > 0 })...)
	})
}
