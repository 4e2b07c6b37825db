package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the program txmgr for the scripts, and for the
// coordinators that they start.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"txmgr": main})
}
