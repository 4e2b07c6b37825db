package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// participantCheckTimeout bounds the checks of one participant.
	participantCheckTimeout = 15 * time.Second
	// maxConcurrentChecks is how many participants are checked at the same time.
	maxConcurrentChecks = 16
)

// Doctor runs all health checks of one participant or, if name is empty, of this node and all
// participants. It changes nothing. A check that cannot be run is a result, not an error.
func (n *Node) Doctor(ctx context.Context, name string) ([]admin.Check, error) {
	if err := n.requireLeader(); err != nil && name != "" {
		return nil, txn.Wrap("doctor", txn.ID{}, err)
	}
	if name != "" {
		if _, ok := n.registration(name); !ok {
			return nil, &txn.Error{Op: "doctor", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
		}
		return n.checkParticipant(ctx, name), nil
	}
	names := recoveryLog{n}.Participants()
	found := make([][]admin.Check, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentChecks)
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = n.checkParticipant(ctx, name)
		})
	}
	all := n.checkNode()
	wg.Wait()
	for _, f := range found {
		all = append(all, f...)
	}
	return all, nil
}

// checkParticipant runs the checks of one participant.
func (n *Node) checkParticipant(ctx context.Context, name string) []admin.Check {
	ds, err := callWithTimeout(ctx, participantCheckTimeout, func(ctx context.Context) ([]participant.Check, error) { return n.runParticipantChecks(ctx, name), nil })
	if err != nil {
		ds = []participant.Check{{
			Level: participant.Failure, Subject: "examination", Message: err.Error(),
			Remedy: "see whether it is overloaded, or hangs; then: txmgr doctor " + name,
		}}
	}
	ds = append(ds, n.checkQuota(name))
	out := make([]admin.Check, len(ds))
	for i, d := range ds {
		out[i] = admin.Check{Participant: name, Level: levelName(d.Level), Subject: d.Subject, Message: d.Message, Remedy: d.Remedy}
	}
	return out
}

func (n *Node) runParticipantChecks(ctx context.Context, name string) []participant.Check {
	p, err := n.participants.Get(ctx, name)
	if err != nil {
		return []participant.Check{{Level: participant.Failure, Subject: "settings", Message: "it cannot be opened: " + err.Error(), Remedy: "correct the settings, and register it again: txmgr participant add " + name}}
	}
	if e, ok := p.(participant.HealthChecker); ok {
		return e.CheckHealth(ctx)
	}
	if err := p.Check(ctx); err != nil {
		return []participant.Check{{Level: participant.Failure, Subject: "check", Message: err.Error()}}
	}
	return []participant.Check{{Level: participant.OK, Subject: "check", Message: "it can take part in transactions"}}
}

// checkQuota compares a participant's quota with its unfinished branches.
func (n *Node) checkQuota(name string) participant.Check {
	d := participant.Check{Level: participant.OK, Subject: participants.QuotaSetting}
	used, limit, ok := n.quotas.Usage(name)
	if !ok {
		d.Message = "no bound is set for the branches that are open there at once"
		return d
	}
	d.Message = fmt.Sprintf("%d of %d branches are unfinished", used, limit)
	if used*10 >= limit*9 {
		d.Level = participant.Warning
		d.Message += ": further ones will be refused"
		d.Remedy = fmt.Sprintf("txmgr indoubt list; txmgr list --participant %s; or register it with a larger %s", name, participants.QuotaSetting)
	}
	return d
}

func levelName(l participant.HealthLevel) string {
	switch l {
	case participant.OK:
		return "ok"
	case participant.Warning:
		return "warning"
	}
	return "failure"
}

// isUnsupported reports whether a check does not exist on this operating system.
func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
