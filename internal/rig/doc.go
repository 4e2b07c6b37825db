// Package rig contains what tests of real processes share: a [Process] that can be killed,
// suspended and restarted, an [EventLog] of what was done, bounded waits, and [HostStalls], the
// stalls of the machine itself, for which the product is not responsible.
//
//	p := &rig.Process{Name: "n1", Path: program, Args: []string{"server"}, OnFailure: t.Errorf}
//	err := p.Start(ctx)
//	p.Kill()
//
// # Invariants
//
//  1. Only processes that were started here are signalled, each by its own process group. They end
//     with this program, also if it is killed.
//  2. An unexpected exit is reported.
//
// # Concurrency and time
//
// Everything is safe for concurrent use; one process is started, killed or suspended by one caller
// at a time. Waits are bounded by the context and by [WaitTimeout].
package rig
