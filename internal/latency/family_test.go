package latency

import (
	"testing"
	"time"
)

func TestFamilyKeepsTheNamesThatAreRead(t *testing.T) {
	var f Family
	f.Record("a", time.Second)
	f.Record("b", time.Second)
	if got := f.Read([]string{"a"}); len(got) != 1 || got["a"].Count != 1 {
		t.Errorf("%+v", got)
	}
	if got := f.Read([]string{"a", "b"}); got["a"].Count != 1 || got["b"].Count != 0 {
		t.Errorf("what was removed is kept: %+v", got)
	}
}
