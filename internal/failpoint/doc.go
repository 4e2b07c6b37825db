// Package failpoint lets the crash tests end the process at a named step, or block a goroutine
// there. Call [Hit] with the name of the step:
//
//	failpoint.Hit("decision proposed")
//
// A binary built with the tag "failpoint" reads the environment variable
// TXMGR_FAILPOINT once: "NAME" or "NAME:N" kills the process, as kill -9 does,
// when the step NAME is passed for the first or the N-th time. "NAME@FILE" blocks the first
// goroutine that passes the step while FILE exists, until FILE is removed.
// In every other build [Hit] is empty and costs nothing.
//
// It is part of the product because the steps are: a signal from outside cannot be timed to arrive
// between two statements.
package failpoint
