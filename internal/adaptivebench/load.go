package adaptivebench

import (
	"context"
	"sync"
	"time"
)

// Phase is a part of an experiment during which the number of users is the same.
type Phase struct {
	// Name is short: it stands above a column.
	Name  string `json:"name"`
	Users int    `json:"users"`
	// Part of the whole time, from 0 to 1.
	Part float64 `json:"part"`
}

// The loads that there are.
const (
	FixedLoad   = "fixed"
	VaryingLoad = "varying"
)

// Loads are their names.
func Loads() []string { return []string{FixedLoad, VaryingLoad} }

// PhasesOf returns the phases of a load, with at most so many users: 100 for the dissertation's
// varying load. A fixed load has two halves, so that the learning of an optimizer can be
// distinguished from its result.
func PhasesOf(load string, users int) []Phase {
	if load == FixedLoad {
		return []Phase{{"first half", users, 0.5}, {"second half", users, 0.5}}
	}
	half := (users + 1) / 2
	var phases []Phase
	for i, n := range []int{half, 1, users, 0, half} {
		phases = append(phases, Phase{[]string{"first", "second", "third", "fourth", "fifth"}[i], n, 0.2})
	}
	return phases
}

// user sends requests, one at a time.
type user interface {
	request(ctx context.Context) error
	close()
}

// closedLoop is a number of users that send one request after the other without a pause. Its
// methods are for one goroutine.
type closedLoop struct {
	ctx     context.Context
	fail    func(error)           // of a request, or of a new user; for many goroutines
	newUser func() (user, error)  // a new user; for many goroutines
	took    func(d time.Duration) // a request that was answered; for many goroutines
	leave   []chan struct{}       // of each user that is present
	all     sync.WaitGroup
}

// set adds or removes users until there are n. A user that is removed first waits for the
// answer to its last request.
func (c *closedLoop) set(n int) {
	for len(c.leave) < n {
		gone := make(chan struct{})
		c.leave = append(c.leave, gone)
		c.all.Go(func() { c.runUser(gone) })
	}
	for len(c.leave) > n {
		last := len(c.leave) - 1
		close(c.leave[last])
		c.leave = c.leave[:last]
	}
}

// end removes all users, and waits for them.
func (c *closedLoop) end() {
	c.set(0)
	c.all.Wait()
}

// runUser runs one user until it is removed.
func (c *closedLoop) runUser(gone chan struct{}) {
	u, err := c.newUser()
	if err != nil {
		c.fail(err)
		return
	}
	defer u.close()
	for {
		select {
		case <-gone:
			return
		case <-c.ctx.Done():
			return
		default:
		}
		began := time.Now()
		if err := u.request(c.ctx); err != nil {
			c.fail(err)
			return
		}
		c.took(time.Since(began))
	}
}

// runPhases runs the phases, in total in the given time, and calls sample at the end
// of each of approximately equal pieces, of which none is in two phases: piece is how long
// one should be. It ends early when ctx does.
func (c *closedLoop) runPhases(phases []Phase, total, piece time.Duration, sample func(phase int, from, to time.Duration)) {
	began := time.Now()
	var from time.Duration
	for i, p := range phases {
		c.set(p.Users)
		length := time.Duration(p.Part * float64(total))
		pieces := max(1, int((length+piece/2)/piece))
		first := from
		for k := range pieces {
			to := first + length*time.Duration(k+1)/time.Duration(pieces)
			select {
			case <-time.After(time.Until(began.Add(to))):
			case <-c.ctx.Done():
				return
			}
			sample(i, from, to)
			from = to
		}
	}
}
