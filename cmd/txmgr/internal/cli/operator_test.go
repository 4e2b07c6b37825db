package cli

import "testing"

func TestWhoDidIt(t *testing.T) {
	a := &App{Env: func(name string) string {
		if name == UserVariable {
			return " alice@ops "
		}
		return ""
	}}
	if got := a.OperatorName(); got != "alice@ops" {
		t.Errorf("%q", got)
	}
	a.Env = func(string) string { return "" }
	if got := a.OperatorName(); got == "" || got[0] == '@' {
		t.Errorf("without a name: %q", got)
	}
}
