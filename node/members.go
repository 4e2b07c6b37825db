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
	"github.com/txmgr/txmgr/txn/machine"
)

// EmbeddedKind is the kind of participants that live in the coordinator's own
// process; see [Config.Participants].
const EmbeddedKind = "embedded"

// openTimeout bounds the opening of a participant: others wait for it.
const openTimeout = 10 * time.Second

// members holds the opened participants of the registrations.
type members struct {
	openers  map[string]participant.Opener
	embedded map[string]participant.Participant
	cluster  func() string
	lookup   func(name string) (txn.Participant, bool)

	mu   sync.Mutex
	open map[string]*member // guarded by mu
}

// member is one opened participant, or one that is being opened.
type member struct {
	registration txn.Participant
	ready        chan struct{} // closed when the two below are set
	participant  participant.Participant
	err          error
}

func newMembers(c Config, cluster func() string, lookup func(string) (txn.Participant, bool)) *members {
	return &members{openers: c.Openers, embedded: c.Participants, cluster: cluster, lookup: lookup, open: make(map[string]*member)}
}

// get opens the participant when it is not open, or was registered anew since.
func (s *members) get(ctx context.Context, name string) (participant.Participant, error) {
	p, ok := s.lookup(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s", txn.ErrNotFound, machine.NotRegistered(name))
	}
	s.mu.Lock()
	m := s.open[name]
	if m != nil && same(m.registration, p) {
		s.mu.Unlock()
		return m.wait(ctx)
	}
	old := m
	m = &member{registration: p, ready: make(chan struct{})}
	s.open[name] = m
	s.mu.Unlock()
	if old != nil {
		_ = old.close() // what it held is of no use any more
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	m.participant, m.err = s.try(ctx, p)
	if m.err != nil {
		s.mu.Lock()
		if s.open[name] == m {
			delete(s.open, name) // the next one tries again
		}
		s.mu.Unlock()
	}
	close(m.ready)
	return m.participant, m.err
}

// try opens a participant that is not entered anywhere.
func (s *members) try(ctx context.Context, p txn.Participant) (participant.Participant, error) {
	if p.Kind == EmbeddedKind {
		if e := s.embedded[p.Name]; e != nil {
			return e, nil
		}
		return nil, fmt.Errorf("%w: participant %q is embedded, and this process has none of that name", txn.ErrUnavailable, p.Name)
	}
	open := s.openers[p.Kind]
	if open == nil && p.Kind == "mysql" {
		return nil, fmt.Errorf("%w: participant %q: kind %q is not supported: what keeps branches safe in MariaDB, which is of kind mariadb, was not tried on MySQL", txn.ErrInvalid, p.Name, p.Kind)
	}
	if open == nil {
		return nil, fmt.Errorf("%w: participant %q: unknown kind %q", txn.ErrInvalid, p.Name, p.Kind)
	}
	return open(ctx, ofKind(p), s.cluster())
}

// same reports whether what was opened for one registration will do for the other.
func same(a, b txn.Participant) bool {
	return a.Kind == b.Kind && maps.Equal(ofKind(a).Settings, ofKind(b).Settings)
}

func (m *member) wait(ctx context.Context) (participant.Participant, error) {
	select {
	case <-m.ready:
		return m.participant, m.err
	case <-ctx.Done():
		return nil, fmt.Errorf("opening participant %q: %w", m.registration.Name, context.Cause(ctx))
	}
}

func (m *member) close() error {
	<-m.ready
	if m.err != nil || m.registration.Kind == EmbeddedKind {
		return nil
	}
	return m.participant.Close()
}

// drop closes one participant, if it is open.
func (s *members) drop(name string) error {
	s.mu.Lock()
	m := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.close()
}

func (s *members) close() error {
	s.mu.Lock()
	open := s.open
	s.open = make(map[string]*member)
	s.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// AddParticipant registers a participant after trying that it can be opened;
// whether it is fit to take part says TestParticipant. Who prepares its branches is
// found out: the coordinator where the participant is a [participant.Preparer]. The audit
// keeps who wants it, at most 128 bytes, and why, at most 512; both may be empty.
func (n *Node) AddParticipant(ctx context.Context, p txn.Participant, by, reason string) error {
	if err := p.Check(); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	if p.Kind == EmbeddedKind {
		return &txn.Error{Op: "participant add", Err: txn.ErrInvalid, Detail: "embedded participants are registered by their process"}
	}
	if _, err := quotaOf(p); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	if _, _, err := choiceOf(p); err != nil {
		return txn.Wrap("participant add", txn.ID{}, err)
	}
	opened, err := n.members.try(ctx, p)
	if err != nil {
		return txn.Wrap("participant add", txn.ID{}, invalid(err))
	}
	_, prepares := opened.(participant.Preparer)
	if err := opened.Close(); err != nil {
		n.logger.Warn("closing a participant after a try", "participant", p.Name, "error", err)
	}
	if p.CoordinatorPrepares && !prepares {
		return &txn.Error{Op: "participant add", Err: txn.ErrInvalid, Detail: fmt.Sprintf("participant %q: the coordinator cannot ask kind %q for votes: the application prepares there", p.Name, p.Kind)}
	}
	p.CoordinatorPrepares = prepares
	return n.register(ctx, machine.RegisterParticipant{Participant: p, By: by, Reason: reason})
}

// invalid says that a registration is at fault, unless the error says better.
func invalid(err error) error {
	if txn.CodeOf(err) != txn.CodeError {
		return err
	}
	return fmt.Errorf("%w: %w", txn.ErrInvalid, err)
}

func (n *Node) register(ctx context.Context, c machine.RegisterParticipant) error {
	res, err := n.batcher.propose(ctx, c)
	switch {
	case err != nil:
		return txn.Wrap("participant add", txn.ID{}, err)
	case res.Code == machine.Conflict:
		return &txn.Error{Op: "participant add", Err: txn.ErrConflict, Detail: fmt.Sprintf("%q is registered with another kind; remove it first", c.Participant.Name)}
	case res.Code != machine.OK:
		return res.Refusal("participant add", txn.ID{})
	}
	return nil
}

// registerEmbedded registers what lives in this process, in the order of the names.
func (n *Node) registerEmbedded() error {
	for _, name := range slices.Sorted(maps.Keys(n.conf.Participants)) {
		_, prepares := n.conf.Participants[name].(participant.Preparer)
		err := n.register(context.Background(), machine.RegisterParticipant{Participant: txn.Participant{Name: name, Kind: EmbeddedKind, CoordinatorPrepares: prepares}})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveParticipant takes a registration back. The audit keeps who wants it and why, as of
// [Node.AddParticipant].
func (n *Node) RemoveParticipant(ctx context.Context, name, by, reason string) error {
	res, err := n.batcher.propose(ctx, machine.UnregisterParticipant{Name: name, By: by, Reason: reason})
	switch {
	case err != nil:
		return txn.Wrap("participant remove", txn.ID{}, err)
	case res.Code == machine.NoParticipant:
		return &txn.Error{Op: "participant remove", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
	case res.Code != machine.OK:
		return res.Refusal("participant remove", txn.ID{})
	}
	return n.members.drop(name)
}

// TestParticipant tries whether a participant can take part in transactions.
func (n *Node) TestParticipant(ctx context.Context, name string) error {
	p, err := n.members.get(ctx, name)
	if err == nil {
		err = p.Check(ctx)
	}
	if err != nil {
		return txn.Wrap("participant test", txn.ID{}, fmt.Errorf("participant %q: %w", name, err))
	}
	return nil
}
