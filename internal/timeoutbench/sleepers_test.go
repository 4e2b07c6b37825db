package timeoutbench

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/timeout"
)

// TestSleep lets sleepers sleep in every queue, in a process of its own.
func TestSleep(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	cells, err := RunSleepers(t.Context(), program, func(queue string) []string { return []string{"sleep", queue} }, 1, nil, func() { done++ })
	if err != nil {
		t.Fatal(err)
	}
	for n, queue := range SleeperQueues() {
		if c := cells[n]; c.Queue != queue || len(c.Rounds) != 1 || c.Least <= 0 || c.Least != c.Most || c.Least != c.Median {
			t.Errorf("%s: %+v", queue, c)
		}
	}
	if len(cells) != len(SleeperQueues()) || done != len(cells) {
		t.Errorf("%d queues, %d done, want %d", len(cells), done, len(SleeperQueues()))
	}
	if _, err := Sleep("hammock"); err == nil || !strings.Contains(err.Error(), `there is no queue "hammock"`) {
		t.Errorf("a queue that is none: %v", err)
	}
}

// TestListQueueIsSorted: the list of the experiment is in the order of the ends, and those of one end in that of their
// coming.
func TestListQueueIsSorted(t *testing.T) {
	q := newListQueue(true)
	ends := make([]timeout.Tick, Sleepers)
	for n := range ends {
		ends[n] = timeout.Tick(n * 7919 % 500)
	}
	q.sleep(ends)
	var got []timeout.Tick
	for n := q.root.next; n != &q.root; n = n.next {
		got = append(got, n.end)
	}
	if want := slices.Sorted(slices.Values(ends)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := q.interrupt(); err != nil {
		t.Error(err)
	}
}
