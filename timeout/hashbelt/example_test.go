package hashbelt_test

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
)

// Sessions stay as long as they are used.
func ExampleBelt() {
	sessions, err := hashbelt.New(hashbelt.Config[string, int]{
		Kind:       hashbelt.Updating,
		Containers: 3,
		Handler: hashbelt.Simple[string, int](func(session string, transactions int) {
			fmt.Printf("%s went silent: roll back %d\n", session, transactions)
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, transactions := range map[string]int{"busy": 1, "silent": 2, "closed": 3} {
		if err := sessions.Put(name, transactions); err != nil {
			fmt.Println(err)
		}
	}
	sessions.Remove("closed")
	for n := 1; n <= 4; n++ {
		fmt.Println("rotation", n, "expires", sessions.Rotate())
		sessions.Get("busy")
	}
	fmt.Println("left:", sessions.Len())
	// Output:
	// rotation 1 expires 0
	// rotation 2 expires 0
	// silent went silent: roll back 2
	// rotation 3 expires 1
	// rotation 4 expires 0
	// left: 1
}

// A report ages however often it is read. Put again, it is on the belt already, and the old one
// stays for its time.
func ExampleBelt_standard() {
	reports, err := hashbelt.New(hashbelt.Config[string, string]{Containers: 2, Container: hashbelt.NewMap[string, string]})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reports.Put("Half Moon Bay", "fog"))
	fmt.Println(reports.Put("Half Moon Bay", "sun"))
	for range 3 {
		fmt.Println(reports.Get("Half Moon Bay"))
		reports.Rotate()
	}
	// Output:
	// <nil>
	// key is on the belt already: remove its object first
	// fog true
	// fog true
	//  false
}

// Each resource is probed once in a turn of the belt. The probes are spread over the rotations as the resources came.
func ExampleReinserting() {
	removed := map[string]bool{}
	probes, err := hashbelt.New(hashbelt.Config[string, string]{
		Containers: 2,
		Container:  hashbelt.NewMapSlice[string, string],
		Handler: hashbelt.Reinserting[string, string](func(name, address string) bool {
			fmt.Printf("probe %s at %s\n", name, address)
			return !removed[name]
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = probes.Put("orders", "db1")
	probes.Rotate()
	_ = probes.Put("stock", "db2")
	for n := 2; n <= 6; n++ {
		fmt.Println("rotation", n)
		probes.Rotate()
		removed["orders"] = n >= 3
	}
	// Output:
	// rotation 2
	// probe orders at db1
	// rotation 3
	// probe stock at db2
	// rotation 4
	// probe orders at db1
	// rotation 5
	// probe stock at db2
	// rotation 6
}

// A ring is driven by the ticks of a log, and is the same on every replica, also on one that began with a snapshot.
func ExampleRing() {
	ring, err := hashbelt.NewRing(3, 0, hashbelt.NewMapSlice[string, string])
	if err != nil {
		fmt.Println(err)
		return
	}
	keep := func(r *hashbelt.Ring[string, string], tx, outcome string) {
		if err := r.Add(tx, outcome, r.Front()); err != nil {
			fmt.Println(err)
		}
	}
	keep(ring, "a", "committed")
	keep(ring, "b", "rolled back")
	ring.Rotate()
	keep(ring, "c", "committed")

	replica, err := hashbelt.NewRing(3, ring.Now(), hashbelt.NewMapSlice[string, string])
	if err != nil {
		fmt.Println(err)
		return
	}
	for end, container := range ring.Containers() {
		for tx, outcome := range container.All() {
			if err := replica.Add(tx, outcome, end); err != nil {
				fmt.Println(err)
			}
		}
	}

	for _, r := range []*hashbelt.Ring[string, string]{ring, replica} {
		for gone := r.Advance(timeout.Tick(3)); gone != nil; gone = r.Advance(3) {
			for tx := range gone.All() {
				fmt.Print("drop ", tx, " at ", r.Now(), "; ")
			}
		}
		_, end, ok := r.Get("c")
		fmt.Println("keep c until", end, ok)
	}
	// Output:
	// drop a at 3; drop b at 3; keep c until 4 true
	// drop a at 3; drop b at 3; keep c until 4 true
}
