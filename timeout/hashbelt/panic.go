package hashbelt

import (
	"fmt"
	"runtime/debug"
)

// Panic is the panic value of [Simple] and [Reinserting] when their function has panicked, after
// all objects.
type Panic struct {
	Value any    // of the first panic
	Stack []byte // of the first panic
	Times int    // how often the function has panicked
}

// Error returns what the function panicked with, and where.
func (p *Panic) Error() string {
	return fmt.Sprintf("hashbelt: the handler panicked at %d of the objects, first with: %v\n\n%s", p.Times, p.Value, p.Stack)
}

// Unwrap returns the value of the first panic if that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// catchPanic calls f and adds a panic of it to those before.
func catchPanic(before *Panic, f func()) (after *Panic) {
	after = before
	defer func() {
		switch value := recover(); {
		case value == nil:
		case before == nil:
			after = &Panic{Value: value, Stack: debug.Stack(), Times: 1}
		default:
			after.Times++
		}
	}()
	f()
	return after
}

// rethrow panics if there was one.
func (p *Panic) rethrow() {
	if p != nil {
		panic(p)
	}
}
