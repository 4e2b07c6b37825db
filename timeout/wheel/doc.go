// Package wheel is a hierarchical timing wheel: adding a task and cancelling it take constant
// time, however many wait. Call [New], [Wheel.Add] and [Wheel.Cancel] for tasks, and at every tick
// [Wheel.Advance] and [Wheel.Pop]:
//
//	w := wheel.New[string](0, wheel.DefaultSize)
//	w.Add(&wheel.Task[string]{Value: "tx_1"}, 600)
//	w.Advance(600)
//	for t := w.Pop(); t != nil; t = w.Pop() {
//		expired(t.Value)
//	}
//
// A [Task] waits in a [Wheel] for the tick at which it ends. The owner of the wheel passes the
// time ([Wheel.Advance]) and takes the due tasks, one after the other ([Wheel.Pop]). [Wheel.Next]
// returns until when nothing will be due, so the owner can sleep until then, as package
// [github.com/txmgr/txmgr/timeout/wheel/runner] does.
//
// # Why
//
// Requests that wait for something, and attempts that are to be repeated, nearly all end before
// their time: what counts is the price of adding and of cancelling, and that nothing is left
// behind. A heap takes log n steps for both and holds as many elements as there are tasks. The
// wheel links a task into a list and out of it again. The design is that of the request purgatory
// of Kafka: hierarchical wheels, buckets that are doubly linked lists, and a clock that is driven
// by a delay queue of buckets. So a wheel with few tasks does not tick.
//
// # How
//
// Level 0 has buckets of one tick, level 1 buckets of n ticks, level i buckets of n to the power
// of i. n of them make a block, which is one bucket of the level above. A level keeps the block
// that runs and the one that follows. With n = 4, a dot for a bucket:
//
//	1 tick     |. . . .|. . . .|
//	4 ticks    |.       .       .       .       |.       .    ...
//	16 ticks   |.                               .             ...
//
// Tasks move down through the levels as their time comes:
//
//   - A task goes to the lowest level whose two blocks cover its end. There it waits in the bucket
//     of its end: a circular, doubly linked list. Its link cell is in the task, so a task can be
//     unlinked without a search.
//   - Levels are made when a task first needs them. The remotest end needs 64 / log2 n of them.
//   - A task whose end has passed is due at once. It goes into a list of its own, not into the
//     bucket of the current tick, which may be on its way out.
//   - The delay queue, a [github.com/txmgr/txmgr/timeout/heap], holds the buckets that are not
//     empty, each at the first end that it has seen. When that comes, a bucket of level 0 is due,
//     and a higher one is emptied downwards: each of its tasks moves to the lowest level that
//     covers its end by now.
//   - Emptying a large bucket at once would block everything. A level covers the block that
//     follows so that it can be done in advance: a bucket with more than 256 tasks is emptied in
//     steps of 256, spread over the ticks of the bucket before it. Where that is not enough, a
//     step is as large as it must be.
//   - A task whose end is covered by a bucket above its level that is not yet empty goes there,
//     behind the tasks there with the same end, and makes the bucket pass on two. So the order is
//     kept, and a bucket that has begun to empty shrinks with each task that is added.
//
// # Cost
//
// Add and Cancel take constant time. The first task of a bucket and the last also take the bucket
// into the delay queue and out of it: a number of steps that is logarithmic in the number of
// buckets, of which there are 2n per level, and does not depend on how many tasks wait. A task
// moves down at most once for each level below the one that it was added to. Advance costs the
// same whether it passes a tick or a year: its work depends on the tasks whose bucket is passed,
// and on nothing else. An owner that jumps over the ticks in which a large bucket would have been
// emptied step by step has it emptied at once. Nothing is allocated but a level that is needed for
// the first time.
//
// # Invariants
//
//  1. A task is taken when Now has reached its end, never before.
//  2. It is taken once or cancelled once, never both.
//  3. Tasks are taken in the order of their ends, those with the same end in the order in which
//     they were added. The end of one that was added too late is the Now of that moment.
//  4. Adding a task that waits already, here or in another wheel, and cancelling one that does not
//     wait here changes nothing.
//  5. A task stands in the one bucket of its level that covers its end, never below the lowest
//     level that covers it, and above that only in a bucket that is being emptied or soon will be.
//  6. Of tasks with the same end the one added first stands on a lower level, or earlier in the
//     same bucket.
//  7. A bucket is in the delay queue exactly if it holds a task, at a tick that is not after the
//     first end in it; if it holds more than 256, at a tick at which it can still be emptied in
//     time.
//  8. Next is never later than the first end. Once Pop has returned nil it is the first end,
//     unless tasks were cancelled, or more than 256 wait in one bucket of a higher level.
//  9. The same calls in the same order have the same results in every process.
//
// # Waking up
//
// An owner that repeatedly advances to Next, and takes the due tasks, does so no more often than
// there were different ends among the tasks added, and once more for every step in which a bucket
// of more than 256 tasks is emptied. A single task costs one wakeup however far away its end. A
// cancelled one costs at most that one, too.
//
// # Concurrency and time
//
// A wheel has one owner and no lock. It reads no clock and starts no goroutine; the owner defines
// the tick.
//
// # What it does not do
//
// It does not run due tasks, and does not record how a task went: that is for the owner. It never
// returns memory: the levels that it has made stay, each 2n buckets of some 120 bytes.
package wheel
