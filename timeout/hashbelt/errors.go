package hashbelt

import "errors"

// Reasons why [New] and [NewRing] refuse; test for them with errors.Is.
var (
	// ErrContainers means that the number of containers is negative, zero for a ring, or above [MaxContainers].
	ErrContainers = errors.New("number of containers out of range")
	// ErrLimit means that the limit of objects is negative or above [MaxObjects].
	ErrLimit = errors.New("limit of objects out of range")
	// ErrKind means that the kind of belt is neither [Standard] nor [Updating].
	ErrKind = errors.New("belt must be standard or updating")
)

// Reasons why an object is not put; test for them with errors.Is.
var (
	// ErrKnown means that an object is there under the key already, and stays.
	ErrKnown = errors.New("key is on the belt already: remove its object first")
	// ErrFull means that the limit of objects is reached: some have to be removed, or fall off, first.
	ErrFull = errors.New("belt is full: wait for a rotation, or set a higher limit")
	// ErrHalted means that the belt was halted, for good.
	ErrHalted = errors.New("belt is halted: make a new one")
	// ErrEnd means that no container ends then: the lifetime is shorter than one rotation, or longer than the belt.
	ErrEnd = errors.New("no container ends then")
	// ErrKey means that the key does not equal itself, as a NaN does not, so the object could never
	// be found.
	ErrKey = errors.New("key does not equal itself: choose another")
)
