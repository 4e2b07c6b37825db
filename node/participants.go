package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// EmbeddedKind is the kind of participants that run in the coordinator's own
// process; see [Config.Participants].
const EmbeddedKind = "embedded"

// openTimeout bounds the opening of a participant: other callers wait for it.
const openTimeout = 10 * time.Second

// participants holds the opened participants of the registrations.
type participants struct {
	drivers  map[string]participant.Driver
	embedded map[string]participant.Participant
	cluster  func() string
	lookup   func(name string) (admin.Participant, bool)

	mu      sync.Mutex
	handles map[string]*participantHandle // guarded by mu
}

// participantHandle is one opened participant, or one that is being opened.
type participantHandle struct {
	registration admin.Participant
	ready        chan struct{} // closed when participant and err are set
	participant  participant.Participant
	err          error
}

func newParticipants(c Config, cluster func() string, lookup func(string) (admin.Participant, bool)) *participants {
	return &participants{drivers: c.Drivers, embedded: c.Participants, cluster: cluster, lookup: lookup, handles: make(map[string]*participantHandle)}
}

// get returns the opened participant. It opens it when it is not open, or was registered anew
// since.
func (s *participants) get(ctx context.Context, name string) (participant.Participant, error) {
	p, ok := s.lookup(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s", txn.ErrNotFound, machine.NotRegistered(name))
	}
	s.mu.Lock()
	m := s.handles[name]
	if m != nil && sameSettings(m.registration, p) {
		s.mu.Unlock()
		return m.wait(ctx)
	}
	old := m
	m = &participantHandle{registration: p, ready: make(chan struct{})}
	s.handles[name] = m
	s.mu.Unlock()
	if old != nil {
		_ = old.close() // the old settings are of no use any more
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	m.participant, m.err = s.openNew(ctx, p)
	if m.err != nil {
		s.mu.Lock()
		if s.handles[name] == m {
			delete(s.handles, name) // the next call tries again
		}
		s.mu.Unlock()
	}
	close(m.ready)
	return m.participant, m.err
}

// openNew opens a participant without adding it to the handles.
func (s *participants) openNew(ctx context.Context, p admin.Participant) (participant.Participant, error) {
	if p.Kind == EmbeddedKind {
		if e := s.embedded[p.Name]; e != nil {
			return e, nil
		}
		return nil, fmt.Errorf("%w: participant %q is embedded, and this process has none of that name", txn.ErrUnavailable, p.Name)
	}
	open := s.drivers[p.Kind]
	if open == nil && p.Kind == "mysql" {
		return nil, fmt.Errorf("%w: participant %q: kind %q is not supported: what keeps branches safe in MariaDB, which is of kind mariadb, was not tried on MySQL", txn.ErrInvalid, p.Name, p.Kind)
	}
	if open == nil {
		return nil, fmt.Errorf("%w: participant %q: unknown kind %q", txn.ErrInvalid, p.Name, p.Kind)
	}
	return open(ctx, withoutCommonSettings(p), s.cluster())
}

// sameSettings reports whether a participant opened for one registration can serve the other.
func sameSettings(a, b admin.Participant) bool {
	return a.Kind == b.Kind && maps.Equal(withoutCommonSettings(a).Settings, withoutCommonSettings(b).Settings)
}

func (m *participantHandle) wait(ctx context.Context) (participant.Participant, error) {
	select {
	case <-m.ready:
		return m.participant, m.err
	case <-ctx.Done():
		return nil, fmt.Errorf("opening participant %q: %w", m.registration.Name, context.Cause(ctx))
	}
}

func (m *participantHandle) close() error {
	<-m.ready
	if m.err != nil || m.registration.Kind == EmbeddedKind {
		return nil
	}
	return m.participant.Close()
}

// drop closes one participant, if it is open.
func (s *participants) drop(name string) error {
	s.mu.Lock()
	m := s.handles[name]
	delete(s.handles, name)
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.close()
}

func (s *participants) close() error {
	s.mu.Lock()
	open := s.handles
	s.handles = make(map[string]*participantHandle)
	s.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// AddParticipant registers a participant after checking that it can be opened; TestParticipant
// checks whether it can take part in transactions. Whether the coordinator prepares its branches
// is detected: it does if the participant is a [participant.Preparer]. The audit records who
// asked for it, at most 128 bytes, and why, at most 512; both may be empty.
func (n *Node) AddParticipant(ctx context.Context, p admin.Participant, by, reason string) error {
	if err := p.Check(); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	if p.Kind == EmbeddedKind {
		return &txn.Error{Op: "participant add", Err: txn.ErrInvalid, Detail: "embedded participants are registered by their process"}
	}
	if _, err := quotaOf(p); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	if _, _, err := optimizerChoice(p); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	opened, err := n.participants.openNew(ctx, p)
	if err != nil {
		return txn.Wrap("participant add", txn.ID{}, asInvalid(err))
	}
	_, prepares := opened.(participant.Preparer)
	if err := opened.Close(); err != nil {
		n.logger.Warn("closing a participant after a try", "participant", p.Name, "error", err)
	}
	if p.CoordinatorPrepares && !prepares {
		return &txn.Error{Op: "participant add", Err: txn.ErrInvalid, Detail: fmt.Sprintf("participant %q: the coordinator cannot ask kind %q for votes: the application prepares there", p.Name, p.Kind)}
	}
	p.CoordinatorPrepares = prepares
	return n.registerParticipant(ctx, machine.RegisterParticipant{Participant: p, By: by, Reason: reason})
}

// asInvalid marks an error as [txn.ErrInvalid], unless it has a more specific code.
func asInvalid(err error) error {
	if txn.CodeOf(err) != txn.CodeError {
		return err
	}
	return fmt.Errorf("%w: %w", txn.ErrInvalid, err)
}

func (n *Node) registerParticipant(ctx context.Context, c machine.RegisterParticipant) error {
	res, err := n.proposals.Propose(ctx, c)
	switch {
	case err != nil:
		return txn.Wrap("participant add", txn.ID{}, err)
	case res.Code == machine.Conflict:
		return &txn.Error{Op: "participant add", Err: txn.ErrConflict, Detail: fmt.Sprintf("%q is registered with another kind; remove it first", c.Participant.Name)}
	case res.Code != machine.OK:
		return res.ToError("participant add", txn.ID{})
	}
	return nil
}

// registerEmbedded registers the participants of this process, in the order of their names.
func (n *Node) registerEmbedded() error {
	for _, name := range slices.Sorted(maps.Keys(n.conf.Participants)) {
		_, prepares := n.conf.Participants[name].(participant.Preparer)
		err := n.registerParticipant(context.Background(), machine.RegisterParticipant{Participant: admin.Participant{Name: name, Kind: EmbeddedKind, CoordinatorPrepares: prepares}})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveParticipant removes a registration. The audit records who asked for it and why, as in
// [Node.AddParticipant].
func (n *Node) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	res, err := n.proposals.Propose(ctx, machine.UnregisterParticipant{Name: name, By: by, Reason: reason})
	switch {
	case err != nil:
		return txn.Wrap("participant remove", txn.ID{}, err)
	case res.Code == machine.NoParticipant:
		return &txn.Error{Op: "participant remove", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
	case res.Code != machine.OK:
		return res.ToError("participant remove", txn.ID{})
	}
	return n.participants.drop(name)
}

// TestParticipant checks whether a participant can take part in transactions.
func (n *Node) TestParticipant(ctx context.Context, name string) error {
	p, err := n.participants.get(ctx, name)
	if err == nil {
		err = p.Check(ctx)
	}
	if err != nil {
		return txn.Wrap("participant test", txn.ID{}, fmt.Errorf("participant %q: %w", name, err))
	}
	return nil
}
