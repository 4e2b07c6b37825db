package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/node/guardedcall"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn/admin"
)

const (
	// participantCheckTimeout bounds the checks of one participant.
	participantCheckTimeout = 15 * time.Second
	// maxConcurrentChecks is how many participants are checked at the same time.
	maxConcurrentChecks = 16
)

// Participants is what the checks of the participants need.
type Participants struct {
	// Open returns the opened participant.
	Open func(ctx context.Context, name string) (participant.Participant, error)
	// Quota returns how many branches are unfinished at a participant, and its quota; ok is false
	// when it has none.
	Quota func(name string) (used, limit int, ok bool)
	// QuotaSetting is the name of the setting that bounds the branches.
	QuotaSetting string
}

// CheckAll runs the checks of the node and of the named participants.
func CheckAll(ctx context.Context, node NodeFacts, participants Participants, names []string) []admin.Check {
	found := make([][]admin.Check, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentChecks)
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = participants.Check(ctx, name)
		})
	}
	all := node.check()
	wg.Wait()
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

// Check runs the checks of one participant.
func (p Participants) Check(ctx context.Context, name string) []admin.Check {
	ds, err := guardedcall.Do(ctx, participantCheckTimeout, func(ctx context.Context) ([]participant.Check, error) { return p.examine(ctx, name), nil })
	if err != nil {
		ds = []participant.Check{{
			Level: participant.Failure, Subject: "examination", Message: err.Error(),
			Remedy: "see whether it is overloaded, or hangs; then check it again", Call: admin.CallDoctor, CallParticipant: name,
		}}
	}
	return publicChecks(name, append(ds, p.checkQuota(name)))
}

// examine runs the checks that the participant has itself.
func (p Participants) examine(ctx context.Context, name string) []participant.Check {
	opened, err := p.Open(ctx, name)
	if err != nil {
		return []participant.Check{{Level: participant.Failure, Subject: "settings", Message: "it cannot be opened: " + err.Error(), Remedy: "correct the settings, and register it again", Call: admin.CallAddParticipant, CallParticipant: name}}
	}
	if e, ok := opened.(participant.HealthChecker); ok {
		return e.CheckHealth(ctx)
	}
	if err := opened.Check(ctx); err != nil {
		return []participant.Check{{Level: participant.Failure, Subject: "check", Message: err.Error()}}
	}
	return []participant.Check{{Level: participant.OK, Subject: "check", Message: "it can take part in transactions"}}
}

// checkQuota compares a participant's quota with its unfinished branches.
func (p Participants) checkQuota(name string) participant.Check {
	d := participant.Check{Level: participant.OK, Subject: p.QuotaSetting}
	used, limit, ok := p.Quota(name)
	if !ok {
		d.Message = "no bound is set for the branches that are open there at once"
		return d
	}
	d.Message = fmt.Sprintf("%d of %d branches are unfinished", used, limit)
	if used*10 >= limit*9 {
		d.Level = participant.Warning
		d.Message += ": further ones will be refused"
		d.Remedy = fmt.Sprintf("register it with a larger %s, or find the transactions that do not complete", p.QuotaSetting)
		d.Call, d.CallParticipant = admin.CallList, name
	}
	return d
}

// publicChecks returns the results of a participant's checks, or the node's if name is empty, as
// the API shows them.
func publicChecks(name string, ds []participant.Check) []admin.Check {
	out := make([]admin.Check, len(ds))
	for i, d := range ds {
		out[i] = admin.Check{Participant: name, Level: levelName(d.Level), Subject: d.Subject, Message: d.Message, Remedy: d.Remedy, Call: d.Call, CallParticipant: d.CallParticipant}
	}
	return out
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
