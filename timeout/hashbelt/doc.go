// Package hashbelt expires objects by age, a whole container at a time. Call [New] for a belt that
// many goroutines share, [Belt.Put] for each object, and [Belt.Rotate] once in every interval;
// call [NewRing] for one without a lock:
//
//	belt, err := hashbelt.New(hashbelt.Config[string, int]{
//		Containers: 6, // with a Rotate every 10 s an object lives between 50 s and 60 s
//		Handler:    hashbelt.Simple[string, int](func(key string, value int) { expired(key) }),
//	})
//	...
//	err = belt.Put("session", 1)
//	belt.Rotate()
//
// A belt is a ring of containers. An object that is put on it goes into the container at the
// front. At every rotation an empty container comes to the front, all others move on by one, and
// the last falls off, with all its objects. With n containers an object stays for n rotations. No
// time is stored with an object, nor compared: its age is given by the container that it is in.
//
//	         Put, and Get of an updating belt
//	          |
//	          v
//	Rotate  +-----+     +-----+     +-----+     +-----+
//	------> | d e | --> |  c  | --> |     | --> | a b | --> handler, when the lock is free
//	        +-----+     +-----+     +-----+     +-----+
//	falls off in 4          3           2           1 rotations
//
// [Belt] is for many users: it has a lock, a handler, and a kind. On a [Standard] belt every
// object has one lifetime. On an [Updating] belt an object that is put or got moves to the front,
// so objects in use stay. [Ring] is the belt alone, for one owner: no lock, no handler, and the
// same results for the same calls everywhere, so it can be part of a replicated state and be
// rebuilt from a snapshot of that state.
//
// The idea is that of the hashbelts in William Grosso's articles on the expiration of data.
//
// # Why
//
// A client session is kept alive a hundred times before it ends, if it ever does. In a structure
// of deadlines each keep-alive is a cancel and an insertion. Here it is a map lookup, and at most
// once in a rotation a move. In return the time is coarse: of a lifetime of n intervals, up to one
// is rounded away.
//
// # How
//
//   - An index gives for each key its container and its place in it, so that no operation walks
//     the containers. The index is itself a belt, of two maps that take turns: an entry that ended
//     is never deleted, but falls off with the older map, unread.
//   - A container is a map ([NewMap]), a linked list ([NewMapList]) or a slice ([NewMapSlice]);
//     the latter two share the index as their map. They behave alike and differ in what is cheap:
//     a lookup by key after the container has fallen off, removal from the middle, iteration at
//     the end.
//   - So a rotation takes a container off, updates the count, and is done: well below a
//     microsecond under the lock, whatever was in the container. Containers grow in blocks, so
//     that no Put has to wait for a copy of all the others.
//   - Containers are named by the tick at which they end. A snapshot has that tick for each
//     object, and [Ring.Add] takes it.
//
// # As a structure of deadlines
//
// A tick is a rotation. [Ring.Add] puts an entry into the container that ends at its tick,
// [Ring.Remove] cancels it, and [Ring.Advance] jumps to the next end, or over a year, and returns
// what is due, container by container. A ring of n containers has room for n ticks. An entry with
// a later end goes to the front with its end as its value: when it falls off before that, it is
// added again. One that is due already does not go on the belt at all.
//
// # Invariants
//
//  1. An object falls off at the rotation that it was put for, counted from its last put, and from
//     its last get on an updating belt; never before, and not later.
//  2. Every object is in one place: on the belt, with the handler, or with the caller that
//     removed, replaced or cleared it. It comes to the handler once at most.
//  3. At every moment a key has one object at most. An object that is replaced or moved is never
//     missing in between.
//  4. Containers fall off in the order of their ends, and their objects come in the order in which
//     they joined the container. A Get of an object at the front does not make it join again; a
//     Put does.
//  6. A rotation asks nothing of any container, and allocates nothing.
//  7. A container on the ring holds something. The index leads to every object on the ring. It
//     holds no key that was removed, or joined a container more than two turns of the belt ago.
//     When containers are taken off before their end, it holds about twice as many keys as there
//     are objects, or fewer.
//  8. The same calls of a ring in the same order have the same results in every process, also
//     after it was rebuilt.
//
// # Faults of the original
//
// The published source of the original has these faults. None is here, and each has a test that
// would detect it.
//
//  1. It finds the container under the lock and works on it without: in between, the object can be
//     moved, removed or expired by another thread, and so get lost, come back, or be both expired
//     and there.
//  2. Its thread ignores the rotation time that was configured, and always sleeps for the default.
//     The time that its handler takes is added to that.
//  3. Its thread is started before the containers are made.
//  4. An exception of the handler ends the thread, and nothing expires from then on.
//  5. A handler that does not return stops all expiration.
//  6. After a halt it expires once more, and accepts objects that nothing will ever expire.
//  7. It takes a value of null for no object: such a key is never found, and never removed.
//  8. A put of a known key is ignored silently; and a remove does not report whether there was
//     anything.
//  9. Its container with a list clears the map and not the list, so the cleared objects are
//     expired after all.
//  10. That container also keeps each removed object's node for ever, and expires an object twice
//     that was put twice.
//  11. Its reinserting handler overwrites an object that was put under the key while the handler
//     ran.
//  12. Zero containers, or fewer, are accepted, and fail at the first use. A rotation copies the
//     row of containers.
//
// # Concurrency
//
// A belt is safe for concurrent use. Its lock is held for one operation at a time and never while
// a handler runs, so a handler may be slow, block, panic, or call the belt: that affects only the
// goroutine that called Rotate. A ring and a container have one owner.
//
// # Time
//
// None of its own: no clock is read and no goroutine started. The owner calls [Belt.Rotate] once
// in every interval; with n containers and an interval of I an object lives between (n-1)I and nI.
// Rotations that were missed can be made up, one call for each.
//
// # Limits
//
// [MaxContainers] and [MaxObjects], or fewer by [Config]. A key that does not equal itself is
// refused.
//
// # What it does not do
//
// It does not know how old an object is to better than a rotation. It does not give the objects of
// an updating belt lifetimes of their own: a get gives them all the same. It does not limit the
// size of a value, nor copy it. The index keeps the keys, not the values, of what has fallen off
// for up to two turns of the belt.
package hashbelt
