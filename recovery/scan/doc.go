// Package scan reads what is prepared at a participant and compares it with the log:
// [Scanner.Scan] finds the orphans, [Scanner.ReadLocks] and [Scanner.MergeLocks] add what is
// locked there, and [Scanner.Prune] has commit records removed that are not needed any more.
//
// A scan ends no branch: the orphans are recovery's to end, through the lane of the participant.
// The caller sees to it that only one scan or pruning runs at a participant at a time. The rules
// are invariants 5, 7 and 8 of package recovery.
package scan
