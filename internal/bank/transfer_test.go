package bank

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// The places where money is, which are the participants' names.
const (
	inBank    = "bank"
	inSavings = "savings"
	inVault   = "vault"
)

var places = []string{inBank, inSavings, inVault}

// Accounts are numbered from 1 in each place. Those from firstManualAccount on belong to the manual
// branches, and are no part of the sum.
const (
	accounts           = 150
	openingBalance     = 1000
	firstManualAccount = 1000
)

// leg is what a transfer does to one account.
type leg struct {
	Place   string `json:"place"`
	Account int    `json:"account"`
	Delta   int64  `json:"delta"`
}

// transfer is a transaction as a client announces it, before it begins.
type transfer struct {
	ID      txn.ID        `json:"id"`
	Kind    string        `json:"kind"`
	Way     string        `json:"way"` // the name of a [way]
	Timeout time.Duration `json:"timeout"`
	Legs    []leg         `json:"legs"`
	// Reads are places that take part and change nothing.
	Reads []string `json:"reads,omitempty"`
	// Last is the place whose branch is opened last, which may decide.
	Last string `json:"last,omitempty"`
	// Remote is the place whose legs another client does.
	Remote string `json:"away,omitempty"`
	// Typed is the statement that ends the branch at TypedAt past the SDK, and Late is what is done
	// there afterwards, outside of the transaction.
	Typed   string `json:"typed,omitempty"`
	TypedAt string `json:"typed_at,omitempty"`
	Late    []leg  `json:"late,omitempty"`
}

// The kinds of transfers.
const (
	kindPlain     = "plain"
	kindRead      = "read-only"
	kindOverdraw  = "overdraw" // an account has too little
	kindAbandon   = "abandon"  // hangs with its locks until its deadline
	kindPanic     = "panic"
	kindRemote    = "away"  // another process votes, too
	kindCancelled = "hasty" // its caller's context ends in the middle
	kindTyped     = "typed" // its own SQL ends a branch
)

// kinds says how often in a hundred each kind occurs.
var kinds = []struct {
	kind  string
	share int
}{
	{kindPlain, 53}, {kindRemote, 18}, {kindCancelled, 6}, {kindRead, 8}, {kindOverdraw, 8}, {kindPanic, 3}, {kindAbandon, 1}, {kindTyped, 3},
}

// draw draws a transfer.
func draw(r *rand.Rand, id txn.ID) transfer {
	tr := transfer{ID: id, Kind: drawKind(r), Timeout: between(r, 2*time.Second, 5*time.Second)}
	way := drawWay(r, tr.Kind)
	tr.Way = way.name
	if tr.Kind != kindAbandon && r.IntN(10) < 3 {
		tr.Timeout = between(r, 8*time.Second, 12*time.Second)
	}
	route := drawRoute(r, tr.Kind)
	if len(way.places) > 0 {
		route = slices.Clone(way.places)
		tr.Last = route[r.IntN(len(route))]
	}
	if tr.Kind == kindRead {
		tr.Reads = route
		return tr
	}
	tr.Legs = drawLegs(r, route)
	switch {
	case tr.Kind == kindOverdraw:
		tr.Legs[0].Delta -= 100 * openingBalance
		tr.Legs[1].Delta += 100 * openingBalance
	case tr.Kind == kindTyped:
		drawTyped(r, &tr)
	case tr.Kind == kindRemote:
		for _, l := range tr.Legs {
			if l.Place != inVault {
				tr.Remote = l.Place
			}
		}
	case !way.alone() && r.IntN(5) == 0:
		for _, p := range places {
			if !slices.Contains(route, p) {
				tr.Reads = append(tr.Reads, p)
			}
		}
	}
	return tr
}

func drawKind(r *rand.Rand) string {
	n := r.IntN(100)
	for _, k := range kinds {
		if n -= k.share; n < 0 {
			return k.kind
		}
	}
	return kindPlain
}

// drawRoute chooses one to three places for a transfer that the log decides. If one is chosen, its
// branch is none that the client itself could commit.
func drawRoute(r *rand.Rand, kind string) []string {
	route := slices.Clone(places)
	r.Shuffle(len(route), func(i, k int) { route[i], route[k] = route[k], route[i] })
	switch n := r.IntN(100); {
	case n < 20 && kind == kindRemote:
		return places[n%2 : n%2+1]
	case n < 20 && kind == kindRead:
		return route[:1]
	case n < 10 && kind != kindTyped:
		return []string{inVault}
	case n < 65:
		return route[:2]
	}
	return route
}

// drawLegs moves an amount along a route. A route of one place moves it between two accounts there.
func drawLegs(r *rand.Rand, route []string) []leg {
	amount := 1 + r.Int64N(20)
	at := func(place string, delta int64) leg { return leg{place, 1 + r.IntN(accounts), delta} }
	switch len(route) {
	case 1:
		from, to := at(route[0], -amount), at(route[0], amount)
		to.Account = 1 + (from.Account+r.IntN(accounts-1))%accounts // another one
		return []leg{from, to}
	case 2:
		return []leg{at(route[0], -amount), at(route[1], amount)}
	}
	part := r.Int64N(amount) + 1
	return []leg{at(route[0], -amount-part), at(route[1], amount), at(route[2], part)}
}

// at returns the legs in one place.
func (tr *transfer) at(place string) (legs []leg) {
	for _, l := range tr.Legs {
		if l.Place == place {
			legs = append(legs, l)
		}
	}
	return legs
}

// takesPart returns the places where the transfer has a branch, in the order of their opening.
func (tr *transfer) takesPart() (in []string) {
	for _, p := range places {
		if len(tr.at(p)) > 0 || slices.Contains(tr.Reads, p) {
			in = append(in, p)
		}
	}
	if at := slices.Index(in, tr.Last); at >= 0 {
		in = append(slices.Delete(in, at, at+1), tr.Last)
	}
	return in
}

// The outcomes of transfers, as clients report them.
const (
	outcomeOK          = "ok"
	outcomeEndedByApp  = "ended by the application"
	outcomeRolledBack  = "rolled back"
	outcomeInDoubt     = "in doubt"
	outcomeUnavailable = "unavailable" // it has not begun
	outcomePanicked    = "panicked"
	outcomeOther       = "other"
)

// report is a line of a client: a transfer that is about to begin, or the end of one.
type report struct {
	Begin *transfer    `json:"begin,omitempty"`
	End   *transferEnd `json:"end,omitempty"`
}

type transferEnd struct {
	ID      txn.ID `json:"id"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
	// Failed says that the function of the transaction returned an error, so that no commit was
	// requested. Decider is who decided, of a transfer that was committed.
	Failed  bool    `json:"failed,omitempty"`
	Decider decider `json:"decider,omitempty"`
}
