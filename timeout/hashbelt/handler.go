package hashbelt

// Handler receives the containers that fall off a belt.
type Handler[K comparable, V any] interface {
	// Expire gets a container that has fallen off, and owns it: each once, with one object at
	// least. The lock of the belt is not held, so Expire may call b, and may put objects back. It
	// runs in the goroutine that rotates; when several rotate, their calls run at the same time.
	Expire(b *Belt[K, V], gone Container[K, V])
}

// Null is the handler that does nothing: the objects are the garbage collector's.
type Null[K comparable, V any] struct{}

// Expire does nothing.
func (Null[K, V]) Expire(*Belt[K, V], Container[K, V]) {}

// Simple is the handler that calls a function for each object.
type Simple[K comparable, V any] func(key K, value V)

// Expire calls f for each object once, in the order in which they came into the container. When f
// panics, the others are still passed to it; then Expire panics with a [*Panic].
func (f Simple[K, V]) Expire(_ *Belt[K, V], gone Container[K, V]) {
	var first *Panic
	for key, value := range gone.All() {
		first = catchPanic(first, func() { f(key, value) })
	}
	first.rethrow()
}

// Reinserting is the handler that calls a function for each object and puts it back at the front:
// for recurring work, once in every turn of the belt. The function reports whether the object goes
// back.
//
// From its rotation until it is put back, the object is not on the belt: a Remove does not find it,
// so the caller that removes has to tell the function as well. An object that was put under its key
// meanwhile is newer and stays, and the old object is dropped; so it is if the belt is full or
// halted by then. it is if the belt is full or halted by then.
type Reinserting[K comparable, V any] func(key K, value V) (again bool)

// Expire calls f for each object once, in the order in which they came into the container, and puts
// it back if f returns true. When f panics, the object does not go back, and the others are still
// passed to f; then Expire panics with a [*Panic].
func (f Reinserting[K, V]) Expire(b *Belt[K, V], gone Container[K, V]) {
	var first *Panic
	for key, value := range gone.All() {
		first = catchPanic(first, func() {
			if f(key, value) {
				// No caller could be told why the object is not back.
				_ = b.Add(key, value)
			}
		})
	}
	first.rethrow()
}
