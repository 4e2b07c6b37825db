package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// surveyLines is how many lines about locks, or about waiters, one finding has.
const surveyLines = 21

// Survey tells a person what is prepared at a participant: what a sweep would do,
// and, where the participant is a [participant.Surveyor], what each branch has
// locked, who waits for that, the branches of others, and ghosts. It touches
// nothing. Branches of others are told with the name that the participant has for
// them, and no id. The findings are those of the sweep, then the ghosts, then the
// branches of others, each at most Config.SweepLimit.
//
// With an error there may be findings all the same: those of the sweep, when only
// what goes beyond it could not be had.
func (r *Recovery) Survey(ctx context.Context, name string) ([]txn.Finding, error) {
	ctx, leave, err := r.enterSweep(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("survey %s: %w", name, err)
	}
	defer leave()
	// First the wider look: what the sweep does not see after it is gone.
	held, beyond := r.survey(ctx, name)
	jobs, left, err := r.lookAndNote(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("survey %s: %w", name, err)
	}
	findings := report(jobs, left)
	if beyond == nil {
		findings, beyond = r.merge(ctx, name, findings, held)
	}
	if beyond != nil {
		return findings, fmt.Errorf("survey %s: %w", name, beyond)
	}
	return findings, nil
}

func (r *Recovery) survey(ctx context.Context, name string) (held []participant.Held, err error) {
	p, err := r.open(ctx, name)
	if err != nil {
		return nil, err
	}
	s, ok := p.(participant.Surveyor)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("look at its locks: %w", overdue(ctx, r.cfg.CallTimeout, err))
		}
	}()
	defer unpanic(&err)
	return s.Survey(ctx)
}

// merge adds to the findings of a sweep what the survey knows beyond it.
func (r *Recovery) merge(ctx context.Context, name string, fs []txn.Finding, held []participant.Held) ([]txn.Finding, error) {
	at := make(map[string]int, len(fs))
	for i := range fs {
		at[fs[i].XID] = i
	}
	var ghosts, foreign []txn.Finding
	for _, h := range held {
		k, ours := r.parse(h.XID)
		switch i, found := at[h.XID]; {
		case h.Ghost && len(ghosts) < r.cfg.SweepLimit:
			f := findingOf(name, h, verdictGhost)
			f.Error = ghostHelp
			if ours {
				f.ID, f.Branch = k.TX, k.Branch
			}
			ghosts = append(ghosts, f)
		case h.Ghost:
		case found:
			fs[i].Locks, fs[i].Waiters = lines(h.Locks), lines(h.Waiters)
		case !ours && len(foreign) < r.cfg.SweepLimit:
			foreign = append(foreign, findingOf(name, h, verdictForeign))
		}
	}
	err := r.lookupGhosts(ctx, ghosts)
	return append(append(fs, ghosts...), foreign...), err
}

func findingOf(name string, h participant.Held, verdict string) txn.Finding {
	return txn.Finding{
		Participant: name, XID: printable(h.XID), Since: h.Since, Owner: plain(h.Owner),
		Locks: lines(h.Locks), Waiters: lines(h.Waiters), Verdict: verdict,
	}
}

// ghostHelp says what to do about a ghost.
const ghostHelp = "its locks are held, but it is not listed as prepared and cannot be ended: " +
	"restart the server, then it is listed again"

// lookupGhosts says of those ghosts that are ours what the log knows.
func (r *Recovery) lookupGhosts(ctx context.Context, ghosts []txn.Finding) error {
	var of []*txn.Finding
	for i := range ghosts {
		if !ghosts[i].ID.IsZero() {
			of = append(of, &ghosts[i])
		}
	}
	for len(of) > 0 {
		page := of[:min(len(of), lookupPage)]
		keys := make([]Key, len(page))
		for i, f := range page {
			keys[i] = Key{f.ID, f.Branch}
		}
		known, err := r.lookup(ctx, keys)
		if err != nil {
			return errors.Join(errors.New("ghosts are shown without their transactions' states"), err)
		}
		for i, f := range page {
			f.State = known[i].State
		}
		of = of[len(page):]
	}
	return nil
}

// lines makes texts of a participant fit to be shown.
func lines(ss []string) []string {
	var fit []string
	for _, s := range ss[:min(len(ss), surveyLines)] {
		fit = append(fit, plain(s))
	}
	return fit
}
