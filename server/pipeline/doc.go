// Package pipeline executes the commands that arrive on streams of batches, concurrently and in
// no order, and sends their replies. It knows nothing about what a command does: an
// [Executor] carries it out. Make a [Runner] for all streams of a server with [New], and call
// [Runner.Serve] for each.
//
// # Invariants
//
//  1. Every command that was read gets one reply, unless the stream is broken.
//  2. Commands in flight are bounded, in one stream and in all; a stream is not read while its
//     bound is reached, and a command above the bound of all is refused before it is executed.
//  3. A stream ends when its lifetime does, after the commands that were read are answered.
//
// Replies that are ready at the same time are sent in one message. A command has
// [Config.CallTimeout], rounded up by at most a second.
//
// A command that does not block is executed by the goroutine that reads the stream, and one that
// is deferred is finished by the coordinator's. The latter only puts its reply into the list that
// the stream's writer sends: a client that does not read holds up its own stream and no other.
package pipeline
