package survival_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
)

// show prints a group as the index of its first transaction and the letters of all.
func show(table *survival.Table, i survival.Index) {
	fmt.Printf("%v =>", i)
	for id, end := range table.All() {
		if end == i.Hash(table.Now()) {
			fmt.Printf(" %c", rune(id))
		}
	}
	fmt.Println()
}

// A transaction that comes later joins the group that has the same number of invocations left.
func ExampleTable() {
	table := survival.NewTable(0)
	indices := []survival.Index{{Survival: 5}, {Survival: 4}, {Survival: 6}}
	for n, letters := range []string{"abc", "de", "fghi"} {
		for _, id := range letters {
			table.Add(uint64(id), indices[n].Hash(table.Now()))
		}
	}
	for _, i := range indices {
		show(table, i)
	}

	fmt.Println("invocation")
	table.Advance(1)
	for n := range indices {
		indices[n] = indices[n].Aged(1)
		show(table, indices[n])
	}

	j := survival.Index{Survival: 4}
	fmt.Println("j has", j)
	table.Add('j', j.Hash(table.Now()))
	for _, i := range indices {
		show(table, i)
		fmt.Println("  equal:", i.Equal(j))
	}
	// Output:
	// 5(0) => a b c
	// 4(0) => d e
	// 6(0) => f g h i
	// invocation
	// 5(1) => a b c
	// 4(1) => d e
	// 6(1) => f g h i
	// j has 4(0)
	// 5(1) => a b c j
	//   equal: true
	// 4(1) => d e
	//   equal: false
	// 6(1) => f g h i
	//   equal: false
}

// The hash of an index is the invocation that ends its group, so an index made later finds the bucket of an older one.
func ExampleIndex_Hash() {
	old := survival.Index{Survival: 14}
	fmt.Printf("%v at 0 hashes to %d, bucket %d\n", old, old.Hash(0), old.Hash(0)%10)

	old = old.Aged(1)
	fmt.Printf("%v at 1 hashes to %d, bucket %d\n", old, old.Hash(1), old.Hash(1)%10)

	nascent := survival.Index{Survival: 13}
	fmt.Printf("%v at 1 hashes to %d, bucket %d\n", nascent, nascent.Hash(1), nascent.Hash(1)%10)
	fmt.Println("equal:", nascent.Equal(old))

	buckets := make([][]survival.Tick, 10)
	for _, end := range []survival.Tick{1, 11, 21, 4, 14, 24, 7, 17, 27, 37} {
		buckets[end%10] = append(buckets[end%10], end)
	}
	hash := nascent.Hash(1)
	fmt.Printf("bucket %d holds %d, %d at place %d\n",
		hash%10, buckets[hash%10], hash, slices.Index(buckets[hash%10], hash))
	// Output:
	// 14(0) at 0 hashes to 14, bucket 4
	// 14(1) at 1 hashes to 14, bucket 4
	// 13(0) at 1 hashes to 14, bucket 4
	// equal: true
	// bucket 4 holds [4 14 24], 14 at place 1
}

// A transaction of one second that begins 30 ms before an invocation survives eleven of them at an interval of 100 ms.
func ExampleNewIndex() {
	i, err := survival.NewIndex(time.Second, 30*time.Millisecond, 100*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(i, "ends with invocation", i.Hash(7000))
	// Output:
	// 11(0) ends with invocation 7011
}
