package recoverylog

import (
	"context"
	"log/slog"

	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn/machine"
)

// Log implements the log of package recovery. All fields are required.
type Log struct {
	View            func(func(*machine.Machine)) // the state machine
	Clock           *ticks.Clock
	Queue           Queue
	RequireReadable func(context.Context) error // why the state of this node may not be read; nil when it may
	Term            func() uint64               // the latest term that this node knows
	Registry        *participants.Registry
	Logger          *slog.Logger
}

// Queue is where what recovery has found is written: the queue of proposals.
type Queue interface {
	Propose(ctx context.Context, c machine.Command) (machine.Result, error)
}

var _ recovery.Log = (*Log)(nil)

// Participant implements [recovery.Log].
func (l *Log) Participant(ctx context.Context, name string) (participant.Participant, error) {
	return l.Registry.Get(ctx, name)
}

// RecoveryPaused implements [recovery.Log].
func (l *Log) RecoveryPaused() (paused bool) {
	l.View(func(m *machine.Machine) { paused = m.RecoveryPaused() })
	return paused
}

// Participants implements [recovery.Log].
func (l *Log) Participants() []string {
	var names []string
	l.View(func(m *machine.Machine) {
		for _, r := range m.Participants() {
			if !r.Removed {
				names = append(names, r.Name)
			}
		}
	})
	return names
}
