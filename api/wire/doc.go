// Package wire translates between the types of package txn and the messages of the API
// txmgr.v1, the same way on both ends of the network. Call From... to make a message of a
// value and To... to read it back: [FromInfo] and [ToInfo], for example.
//
//	m := wire.FromInfo(info)    // on the server
//	info, err := wire.ToInfo(m) // on the client
//
// It exists so that server and client cannot diverge, and so that the JSON form of the API,
// as curl shows it, is the JSON form of the types of package txn: snake_case names, every
// field present except optional ones without a value, numbers as numbers, durations as Go
// writes them.
//
// # Invariants
//
//  1. Every value of package txn comes back equal from the other end, apart from points in
//     time, which keep nanoseconds but lose the name of their zone, and empty maps and
//     slices, which come back empty rather than nil.
//  2. No value of package txn makes a message that cannot be encoded: text that is not valid
//     UTF-8 is sanitized when it is sent.
//  3. No received message makes a function panic. A field that cannot be decoded gives an
//     error that names it; for a request it is [txn.ErrInvalid].
//  4. An error comes back with the same sentinels ([txn.Error]), whichever protocol carried
//     it.
//
// # Concurrency and time
//
// Functions are pure; [JSON] has no state. No clock is read.
//
// # What it does not do
//
// It checks form, not meaning: limits and rules are the coordinator's.
package wire
