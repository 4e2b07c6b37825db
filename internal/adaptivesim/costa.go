package adaptivesim

import "time"

// Workloads are those of the dissertation: its four applications, as they are simulated.
func Workloads() []*Workload { return []*Workload{prime1m, prime10m, dbRead, dbWrite} }

// Users is a load of phases of the same length, each with so many users.
func Users(length time.Duration, users ...int) []Phase {
	var phases []Phase
	for _, n := range users {
		phases = append(phases, Phase{Length: length, Users: n})
	}
	return phases
}
