package main

import "math/rand/v2"

// rowsOf lists the contenders with each number of workers.
func rowsOf(contenders []*contender, workers []int) (rows []*row) {
	for _, c := range contenders {
		callers := workers
		if c.callers != nil {
			callers = c.callers
		}
		for _, n := range callers {
			rows = append(rows, &row{contender: c, Workers: n})
		}
	}
	return rows
}

// turns is the order of one round. Rows that are compared with each other follow one another, because
// the speed of the machine changes from minute to minute. Otherwise the order is random, so that no
// contender always follows the same one.
func turns(rows []*row) (order []*row) {
	type group struct {
		base    string
		workers int
	}
	var groups []group
	members := make(map[group][]*row)
	for _, r := range rows {
		g := group{r.Beside, r.Workers}
		if g.base == "" {
			g.base = r.Key
		}
		if members[g] == nil {
			groups = append(groups, g)
		}
		members[g] = append(members[g], r)
	}
	for _, i := range rand.Perm(len(groups)) {
		m := members[groups[i]]
		for _, j := range rand.Perm(len(m)) {
			order = append(order, m[j])
		}
	}
	return order
}
