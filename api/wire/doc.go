// Package wire translates between the vocabulary of package txn and the
// messages of the API txmgr.v1, the same way on both ends of the network.
//
// It exists so that server and client cannot drift apart, and so that the JSON
// that a person sees through curl is the JSON form of the types of package txn:
// snake_case names, every field present but those that are marked optional and say
// nothing, numbers as numbers, durations as Go writes them.
//
// # Invariants
//
//  1. What package txn can say goes over the wire and comes back equal, apart
//     from points in time, which keep nanoseconds but lose their zone's name,
//     and empty maps and slices, which come back empty rather than nil.
//  2. No value of package txn makes a message that cannot be encoded: text that
//     is not UTF-8 is mended on the way out.
//  3. Nothing that arrives makes a function panic. What cannot be understood is
//     an error that names the field; for a request it is [txn.ErrInvalid].
//  4. An error comes back with the same sentinels ([txn.Error]), whichever
//     protocol carried it.
//
// # Concurrency and time
//
// Functions are pure; [JSON] has no state. No clock is read.
//
// # What it does not do
//
// It checks form, not meaning: limits and rules are the coordinator's.
package wire
