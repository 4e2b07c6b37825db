// Package wal is a write-ahead log in segments: one append costs one fdatasync. Call [Open] with the
// function that takes what the log holds, then [Log.Append]:
//
//	l, err := wal.Open(dir, wal.Options{}, func(f wal.Frame, p wal.Position) error { … })
//	p, err := l.Append(wal.Frame{Kind: wal.Entries, Index: 17, Body: entries})
//
// # Invariants
//
//  1. Durable: when Append returns nil, the frame is on the disk.
//  2. Nothing silently wrong: Open takes every frame that was acknowledged, or fails with [ErrCorrupt]. It tells
//     the end of the log, where a write was torn, from damage: see below. It cannot detect three faults of a disk, which
//     look like torn writes: the last write is lost; several bits of the last frame are wrong; the last sector that was
//     written is lost, with all frames that begin in it.
//  3. A refusal changes nothing: Open reads and checks everything before it changes anything.
//  4. Bounded: what is not needed goes by whole segments ([Log.Release]).
//
// # Segments
//
// A segment is a file that was filled with zeros before it is used, so that fdatasync has no metadata to
// write; one that is not needed any more is used again. The first has 256 KiB, each further one four times as much;
// none has more than [Options].SegmentBytes, unless one frame needs it. A goroutine fills the next segment while the
// last half of the present one is written. Layouts are described at frame.go and segment.go.
//
// # A torn end and damage
//
// Each use of a file has a random nonce, which is in all of its frames, with their place. So a frame is recognized
// wherever it stands, whatever stands before it, and what an earlier use of the file has left does not count. Where
// no whole frame stands,
//
//   - it is damage if a whole frame stands further behind: a frame is only written when all before it are on
//     the disk;
//   - it is damage if a single flipped bit is all that is wrong: that bit is found by the CRC32C, and a second
//     checksum confirms it. Torn writes miss sectors;
//   - otherwise it is the end: that write was not acknowledged.
//
// Each frame holds the checksum of the one before, so a frame cannot be missing in between. The last frame of a
// full segment names the next one and its nonce, so neither can a segment, nor the last one: that frame is written when
// the next segment is complete on the disk.
//
// # Concurrency
//
// The owner calls one method at a time, except for [Position.ReadAt], which may run beside [Log.Append] but not
// beside [Log.Release]; Bytes, Free and Syncs may be called at any time.
package wal
