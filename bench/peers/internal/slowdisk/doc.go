// Package slowdisk makes the synchronisations of this process, and of every process that it starts
// from then on, take longer, as on a disk that is slower than the machine's: a hard disk, or a
// volume of a network. Call [Start] before anything is started, and [Disk.SetDelay] when the
// measurement begins.
//
// The kernel stops each call of fsync and fdatasync on its way in, by a filter of seccomp, and tells
// a thread of this process, which lets the call proceed when the delay has passed. The call itself is
// then made, so everything is as durable as without. Nothing has to be rebuilt or preloaded, and it
// is the same for Go programs, PostgreSQL and MariaDB.
//
// What it does not imitate: calls of several threads are delayed side by side, as on a volume with
// many queues, where a hard disk would take them one after the other. One call has one delay, even if
// the file system needs several writes for it, as for a file that grows. Writes with O_DSYNC are not
// delayed, nor are msync, sync and sync_file_range. Each synchronisation costs the processor some ten
// microseconds more, in part in this process, see [Disk.CPU].
package slowdisk
