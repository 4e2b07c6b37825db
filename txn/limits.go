package txn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of what enters the log, in bytes or counts.
const (
	MaxName            = 128
	MaxReason          = 512
	MaxLabels          = 16
	MaxLabel           = 128
	MaxPayload         = 64 << 10
	MaxSessionRef      = 256
	MaxBranches        = 256
	MaxParticipants    = 1024
	MaxSettings        = 16
	MaxSettingKey      = 64
	MaxSettingValue    = 1024
	MaxParticipantName = 63
)

// CheckParticipantName reports what is wrong with a participant's name: 1 to 63
// lower-case letters, digits, '-' and '_', beginning with a letter.
func CheckParticipantName(s string) error {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	if s == "" || len(s) > MaxParticipantName || !strings.Contains(letters, s[:1]) || strings.Trim(s, letters+"0123456789-_") != "" {
		return fmt.Errorf("%w: participant name %q: want 1 to %d lower-case letters, digits, '-' or '_', beginning with a letter", ErrInvalid, clip(s), MaxParticipantName)
	}
	return nil
}

// Check reports what is wrong with the options, apart from the timeout, whose
// limits the coordinator knows.
func (o Options) Check() error {
	if len(o.Name) > MaxName {
		return fmt.Errorf("%w: name has %d bytes; at most %d", ErrInvalid, len(o.Name), MaxName)
	}
	if len(o.Branches) > MaxBranches {
		return fmt.Errorf("%w: %d branches; at most %d", ErrInvalid, len(o.Branches), MaxBranches)
	}
	for _, e := range o.Branches {
		if err := e.Check(); err != nil {
			return err
		}
	}
	return checkMap("labels", o.Labels, MaxLabels, MaxLabel, MaxLabel)
}

// Check reports what is wrong with the enlistment.
func (e Enlistment) Check() error {
	if err := CheckParticipantName(e.Participant); err != nil {
		return err
	}
	if len(e.Payload) > MaxPayload {
		return fmt.Errorf("%w: payload for %s has %d bytes; at most %d", ErrInvalid, e.Participant, len(e.Payload), MaxPayload)
	}
	if len(e.SessionRef) > MaxSessionRef {
		return fmt.Errorf("%w: session for %s has %d bytes; at most %d", ErrInvalid, e.Participant, len(e.SessionRef), MaxSessionRef)
	}
	return nil
}

func checkMap(what string, m map[string]string, n, key, value int) error {
	if len(m) > n {
		return fmt.Errorf("%w: %s: %d entries; at most %d", ErrInvalid, what, len(m), n)
	}
	if len(m) == 0 {
		return nil // as nearly always
	}
	for _, k := range slices.Sorted(maps.Keys(m)) { // sorted: the same error at every try
		v := m[k]
		if k == "" || len(k) > key || len(v) > value {
			return fmt.Errorf("%w: %s: %q: want a key of 1 to %d bytes and a value of at most %d", ErrInvalid, what, clip(k), key, value)
		}
	}
	return nil
}
