package purgatory

import "fmt"

// Request waits for a condition. Its two methods are never called at the same time, and what
// TryComplete has written Complete can read. Both may call any method of the purgatory. Neither may
// block: the goroutine that they hold up is that of a caller of Check, or the one that keeps all
// deadlines. A panic of theirs goes on in the goroutine that has called them. If that is the one
// that keeps the deadlines it ends the program, as the panic of a function of time.AfterFunc does.
type Request interface {
	// TryComplete reports whether the condition holds. It is called once or twice by Park, and then whenever one of
	// the request's keys is checked, by one goroutine at a time. It may be called although nothing has changed.
	TryComplete() bool

	// Complete receives the outcome of the request. It is called exactly once, and after it nothing
	// is called.
	Complete(Outcome)
}

// Outcome is how a request has ended. The zero Outcome is none.
type Outcome uint8

const (
	// Satisfied means that TryComplete has reported true.
	Satisfied Outcome = iota + 1
	// Expired means that the deadline came first.
	Expired
	// Cancelled means that [Parked.Cancel] was called.
	Cancelled
	// Stopped means that the purgatory was stopped first.
	Stopped
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Satisfied:
		return "satisfied"
	case Expired:
		return "expired"
	case Cancelled:
		return "cancelled"
	case Stopped:
		return "stopped"
	default:
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
}
