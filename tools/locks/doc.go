// Command locks runs go test with every mutex of the product replaced by one that reports recursion and inversions of
// order. The first report ends the test with the stacks of both places.
//
//	go run -C tools/locks . -race=false ./node ./server
//
// The arguments are those of go test. A lock that one goroutine takes twice, also for reading, and
// two locks that are taken in both orders by any goroutines, are reported when they happen, not
// only when they deadlock. No file of the product is changed: go test is given an overlay, in which
// sync.Mutex and sync.RWMutex are those of github.com/sasha-s/go-deadlock, and a go.mod with that
// dependency.
package main
