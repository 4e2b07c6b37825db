package timeouttest_test

import (
	"testing"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/timeouttest"
)

func TestList(t *testing.T) {
	timeouttest.Run(t, timeouttest.Subject{Name: "another list", New: func(now timeout.Tick) timeout.Structure[any] {
		return timeouttest.Boxed(timeouttest.NewList(now))
	}})
}
