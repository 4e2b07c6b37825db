package recursion

import "testing"

func TestStore(t *testing.T) {
	var s Store
	if s.Twice() != 0 {
		t.Error("not empty")
	}
}
