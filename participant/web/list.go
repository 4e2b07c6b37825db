package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
)

// Limits of lists.
const (
	listPage  = 1000    // branches of one page, requested or returned
	listPages = 100     // pages that one call reads; later calls find the rest, once these are finished
	listBytes = 1 << 20 // of one page
	phaseList = "list"
)

// page is one page of a service's list of branches.
type page struct {
	Branches []listedBranch `json:"branches"`
	// Next is the name after which the next page begins. Empty: this is the last page.
	Next string `json:"next,omitempty"`
}

type listedBranch struct {
	XID   string    `json:"xid"`
	State string    `json:"state,omitempty"` // empty: prepared
	Since time.Time `json:"since,omitzero"`
}

// Prepared implements [participant.Participant]. Without the setting list it returns nothing.
func (r *resourceManager) Prepared(ctx context.Context, prefix string) (list []participant.Prepared, err error) {
	if r.list == nil {
		return nil, nil
	}
	ctx, fail := r.bound(ctx, "list prepared branches")
	defer fail(&err)
	after := ""
	for range listPages {
		p, err := r.page(ctx, url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(listPage)}})
		if err != nil {
			return nil, err
		}
		for _, b := range p.Branches {
			if strings.HasPrefix(b.XID, prefix) && b.XID > after && (b.State == "" || b.State == statePrepared) {
				list = append(list, participant.Prepared{XID: b.XID, Since: b.Since, Owner: "service " + r.list.Host})
			}
		}
		if p.Next == "" {
			break
		}
		if p.Next <= after {
			return nil, fmt.Errorf("the page behind %q ends at %q, which is not behind it", clean(after, 64), clean(p.Next, 64))
		}
		after = p.Next
	}
	return list, nil
}

// page reads one page of the list.
func (r *resourceManager) page(ctx context.Context, query url.Values) (page, error) {
	to := *r.list
	to.RawQuery = query.Encode()
	a, err := r.send(ctx, call{phase: phaseList, method: http.MethodGet, to: &to, limit: listBytes})
	switch {
	case err != nil:
		return page{}, err
	case a.status != http.StatusOK:
		return page{}, a.statusError()
	case a.truncated:
		return page{}, fmt.Errorf("a page of the list has more than %d bytes", listBytes)
	}
	return parsePage(a.body)
}

// parsePage parses a page of a service's list. Unknown fields are ignored, for later versions.
func parsePage(body []byte) (p page, err error) {
	if err := json.Unmarshal(body, &p); err != nil {
		return page{}, fmt.Errorf("the list is not what it should be: %w", err)
	}
	if p.Branches == nil {
		return page{}, errors.New(`the list is not what it should be: want {"branches":[...]}, empty or not`)
	}
	if len(p.Branches) > listPage {
		return page{}, fmt.Errorf("a page lists %d branches; %d were asked for", len(p.Branches), listPage)
	}
	return p, nil
}

// Inspect implements [participant.Inspector].
func (r *resourceManager) Inspect(ctx context.Context, b participant.Branch) (_ participant.BranchReport, err error) {
	ctx, fail := r.bound(ctx, "inspect "+clean(b.XID, 64))
	defer fail(&err)
	if r.list == nil {
		return participant.BranchReport{}, errors.New("a service cannot be asked about a branch without the setting list")
	}
	p, err := r.page(ctx, url.Values{"prefix": {b.XID}, "xid": {b.XID}, "limit": {"1"}})
	if err != nil {
		return participant.BranchReport{}, err
	}
	for _, l := range p.Branches {
		if l.XID == b.XID {
			return l.report(b), nil
		}
	}
	return participant.BranchReport{Outcome: participant.Unknown, Detail: "the service does not list it: not prepared, or forgotten"}, nil
}

// report converts one element of the list.
func (l listedBranch) report(b participant.Branch) participant.BranchReport {
	t := participant.BranchReport{Detail: "the service says: " + clean(l.State, 64)}
	if !l.Since.IsZero() {
		t.Detail += " since " + l.Since.UTC().Format(time.RFC3339)
	}
	switch l.State {
	case "", statePrepared:
		t.Prepared, t.Since, t.Detail = true, l.Since, "the service lists it as prepared"
	case stateCommitted:
		t.Outcome = participant.Committed
	case stateNever:
		t.Outcome = participant.RolledBack
		if b.MayBeCommitted() { // as in response.rollback: its row was deleted before
			t.Outcome = participant.Unknown
		}
	case stateRolledBack, stateNo:
		t.Outcome = participant.RolledBack
	case stateReadOnly:
		t.Outcome = participant.Committed
		t.Detail += ": it changed nothing"
	default:
		t.Outcome = participant.Unknown
	}
	return t
}
