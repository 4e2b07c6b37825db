// Package failpoint lets the crash tests end the process at a named step, or halt a goroutine there.
//
// A binary built with the tag "failpoint" reads the environment variable
// TXMGR_FAILPOINT once: "NAME" or "NAME:N" kills the process, as kill -9 does,
// when the step NAME is passed for the first or the N-th time. "NAME@FILE" lets the
// first goroutine that passes the step while FILE exists wait there until FILE is gone.
// In every other build [Hit] is empty and costs nothing.
//
// It stands inside the product because the steps do: between two lines of it no
// signal from outside can be aimed.
package failpoint
