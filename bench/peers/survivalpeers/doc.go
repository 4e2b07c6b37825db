// Package survivalpeers measures package survival against what a Go program would use in its place: [time.AfterFunc],
// container/heap with the position tracked in the item, and google/btree.
//
// The same harness drives all of them through [Timers], a batch at a time, so that no contender
// pays for a call through an interface. Contenders that are not safe for concurrent use are guarded
// by one mutex, as their owners would do; package survival is measured with and without one,
// because its owner in the coordinator needs none.
//
// All but time.AfterFunc take the time from the caller. time.AfterFunc cannot, so it is measured on
// the real clock.
//
// The command survivaltable prints all of it as one table.
package survivalpeers
