package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/client"
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
		a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &errs, env: func(string) string { return "" }}
		a.print = &output.Printer{Out: a.out, Err: a.err}
		root := rootCommand(a)
		if err := root.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		a.fail(unreachable())
		if got := strings.Contains(errs.String(), "txmgr dev"); got != c.dev {
			t.Errorf("%v: %s", c.args, errs.String())
		}
	}
}

func unreachable() error {
	return &txn.Error{Op: "list", Err: txn.ErrUnavailable, Detail: "nobody listens"}
}
