package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// examineTimeout bounds the examination of one participant.
	examineTimeout = 15 * time.Second
	// examineAtOnce is how many participants are examined at the same time.
	examineAtOnce = 16
)

// Doctor looks for everything that is known to go wrong, at one participant or, when
// the name is empty, at the coordinator and all its participants. It changes nothing.
// What cannot be looked at is a finding, not an error.
func (n *Node) Doctor(ctx context.Context, name string) ([]txn.Diagnosis, error) {
	if err := n.serves(); err != nil && name != "" {
		return nil, txn.Wrap("doctor", txn.ID{}, err)
	}
	if name != "" {
		if _, ok := n.registration(name); !ok {
			return nil, &txn.Error{Op: "doctor", Err: txn.ErrNotFound, Detail: machine.NotRegistered(name)}
		}
		return n.examine(ctx, name), nil
	}
	names := log{n}.Participants()
	found := make([][]txn.Diagnosis, len(names))
	var wg sync.WaitGroup
	turns := make(chan struct{}, examineAtOnce)
	for i, name := range names {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			found[i] = n.examine(ctx, name)
		})
	}
	all := n.examineSelf()
	wg.Wait()
	for _, f := range found {
		all = append(all, f...)
	}
	return all, nil
}

// examine looks at one participant.
func (n *Node) examine(ctx context.Context, name string) []txn.Diagnosis {
	ds, err := within(ctx, examineTimeout, func(ctx context.Context) ([]participant.Diagnosis, error) { return n.askDoctor(ctx, name), nil })
	if err != nil {
		ds = []participant.Diagnosis{{
			Level: participant.Failure, Subject: "examination", Found: err.Error(),
			Fix: "see whether it is overloaded, or hangs; then: txmgr doctor " + name,
		}}
	}
	ds = append(ds, n.examineQuota(name))
	out := make([]txn.Diagnosis, len(ds))
	for i, d := range ds {
		out[i] = txn.Diagnosis{Participant: name, Level: levelName(d.Level), Subject: d.Subject, Found: d.Found, Fix: d.Fix}
	}
	return out
}

func (n *Node) askDoctor(ctx context.Context, name string) []participant.Diagnosis {
	p, err := n.members.get(ctx, name)
	if err != nil {
		return []participant.Diagnosis{{Level: participant.Failure, Subject: "settings", Found: "it cannot be opened: " + err.Error(), Fix: "correct the settings, and register it again: txmgr participant add " + name}}
	}
	if e, ok := p.(participant.Examiner); ok {
		return e.Examine(ctx)
	}
	if err := p.Check(ctx); err != nil {
		return []participant.Diagnosis{{Level: participant.Failure, Subject: "check", Found: err.Error()}}
	}
	return []participant.Diagnosis{{Level: participant.Fine, Subject: "check", Found: "it can take part in transactions"}}
}

// examineQuota compares a participant's quota with what is open there.
func (n *Node) examineQuota(name string) participant.Diagnosis {
	d := participant.Diagnosis{Level: participant.Fine, Subject: QuotaSetting}
	used, limit, ok := n.quotas.use(name)
	if !ok {
		d.Found = "no bound is set for the branches that are open there at once"
		return d
	}
	d.Found = fmt.Sprintf("%d of %d branches are unfinished", used, limit)
	if used*10 >= limit*9 {
		d.Level = participant.Warning
		d.Found += ": further ones will be refused"
		d.Fix = fmt.Sprintf("txmgr doubt list; txmgr list --participant %s; or register it with a larger %s", name, QuotaSetting)
	}
	return d
}

func levelName(l participant.Level) string {
	switch l {
	case participant.Fine:
		return "ok"
	case participant.Warning:
		return "warning"
	}
	return "failure"
}

// unsupported reports whether something cannot be looked at on this system.
func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
