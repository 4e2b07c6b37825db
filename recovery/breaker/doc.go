// Package breaker decides when a participant that fails may be called again: [Breaker] for
// all its calls, [Backoff] for the next attempt at one branch.
//
// Both are pure: the time and the randomness are arguments, and the owner's lock guards them.
package breaker
