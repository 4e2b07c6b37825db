package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Every decision is a row, with its reason, and a row of its own for each participant.
func TestPoolsAreExplained(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 0, 1, 0, time.UTC)
	var out bytes.Buffer
	a := &app{print: &output.Printer{Out: &out, Err: &out, Format: output.TableFormat}}
	err := a.printPools([]admin.Pool{
		{Participant: "bank", Optimizer: "knee", Limit: 24, Running: 23, Queued: 9000, Throughput: 4021.7, Mean: txn.Duration(5 * time.Millisecond), P99: txn.Duration(9 * time.Millisecond), Raised: 2, Decisions: []admin.PoolDecision{
			{At: at, From: 16, To: 32, Why: "tasks wait", Rate: 3000.4, Busy: 15.96, Bound: 1},
			{At: at.Add(time.Second), From: 32, To: 24, Why: "32 completes no more", Rate: 2.345},
		}},
		{Participant: "stock", Optimizer: "fixed:16", Limit: 16},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); len(fields) > 0 {
			got = append(got, strings.Join(fields, " "))
		}
	}
	for _, want := range []string{
		"bank knee 24 23 9000 4022 5ms 9ms 2 0",
		"stock fixed:16 16 0 0 0 - - 0 0",
		"bank 03:00:01.000Z 16 32 3000 16 100 % tasks wait",
		"bank 03:00:02.000Z 32 24 2.35 0 0 % 32 completes no more",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no line %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
}
