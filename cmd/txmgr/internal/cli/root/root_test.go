package root

import (
	"bytes"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
)

// The advice to start a throw-away coordinator is given only for the default address.
func TestAdviceOfDevIsForTheDefaultAddress(t *testing.T) {
	for _, c := range []struct {
		args []string
		dev  bool
	}{
		{nil, true},
		{[]string{"--address", client.DefaultAddress}, true},
		{[]string{"--address", "http://10.0.0.1:7460"}, false},
	} {
		var errs bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &errs, Env: func(string) string { return "" }}
		a.Print = &output.Printer{Out: a.Out, Err: a.Err}
		root := Command(a)
		if err := root.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		a.Fail(unreachable())
		if got := strings.Contains(errs.String(), "txmgr dev"); got != c.dev {
			t.Errorf("%v: %s", c.args, errs.String())
		}
	}
}

func unreachable() error {
	return &txn.Error{Op: "list", Err: txn.ErrUnavailable, Detail: "nobody listens"}
}
