// Package participants holds what a coordinator knows of its participants beside the log: the opened
// ones ([Registry]), how many branches each may have ([Quotas]), and how the concurrency limit of its
// calls is chosen ([Optimizers]). The last two read settings that participants of every kind have.
//
// All are safe for concurrent use. Quotas and Optimizers observe the registrations from the one
// goroutine that applies the log.
package participants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// EmbeddedKind is the kind of participants that run in the coordinator's own
// process; see node.Config.Participants.
const EmbeddedKind = "embedded"

// openTimeout bounds the opening of a participant: other callers wait for it.
const openTimeout = 10 * time.Second

// Registry holds the opened participants of the registrations.
type Registry struct {
	drivers  map[string]participant.Driver
	embedded map[string]participant.Participant
	cluster  func() string
	lookup   func(name string) (admin.Participant, bool)

	mu      sync.Mutex
	handles map[string]*handle // guarded by mu
}

// handle is one opened participant, or one that is being opened.
type handle struct {
	registration admin.Participant
	ready        chan struct{} // closed when participant and err are set
	participant  participant.Participant
	err          error
}

// NewRegistry makes a registry. cluster returns the cluster's id, which drivers need for their XIDs, and
// lookup the current registration of a name.
func NewRegistry(drivers map[string]participant.Driver, embedded map[string]participant.Participant, cluster func() string, lookup func(name string) (admin.Participant, bool)) *Registry {
	return &Registry{drivers: drivers, embedded: embedded, cluster: cluster, lookup: lookup, handles: make(map[string]*handle)}
}

// Get returns the opened participant. It opens it when it is not open, or was registered anew
// since.
func (s *Registry) Get(ctx context.Context, name string) (participant.Participant, error) {
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
	m = &handle{registration: p, ready: make(chan struct{})}
	s.handles[name] = m
	s.mu.Unlock()
	if old != nil {
		_ = old.close() // the old settings are of no use any more
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	m.participant, m.err = s.Open(ctx, p)
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

// Open opens a participant without adding it to the handles.
func (s *Registry) Open(ctx context.Context, p admin.Participant) (participant.Participant, error) {
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

func (m *handle) wait(ctx context.Context) (participant.Participant, error) {
	select {
	case <-m.ready:
		return m.participant, m.err
	case <-ctx.Done():
		return nil, fmt.Errorf("opening participant %q: %w", m.registration.Name, context.Cause(ctx))
	}
}

func (m *handle) close() error {
	<-m.ready
	if m.err != nil || m.registration.Kind == EmbeddedKind {
		return nil
	}
	return m.participant.Close()
}

// Drop closes one participant, if it is open.
func (s *Registry) Drop(name string) error {
	s.mu.Lock()
	m := s.handles[name]
	delete(s.handles, name)
	s.mu.Unlock()
	if m == nil {
		return nil
	}
	return m.close()
}

// Close closes all participants.
func (s *Registry) Close() error {
	s.mu.Lock()
	open := s.handles
	s.handles = make(map[string]*handle)
	s.mu.Unlock()
	var errs []error
	for _, m := range open {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}
