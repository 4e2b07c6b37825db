package timeoutbench

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be the process that [Run] measures in.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "measure" || len(os.Args) == 3 && os.Args[1] == "sleep" {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func child(args []string) error {
	if len(args) == 1 {
		found, err := Sleep(args[0])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(found)
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	found, err := Measure(Contenders(), Task{args[0], size, args[2]})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func args(t Task) []string { return []string{"measure", t.Contender, strconv.Itoa(t.Size), t.Load} }
