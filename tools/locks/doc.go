// Command locks runs go test with every mutex of the product replaced by one that reports recursion and inversions of
// order. The first report ends the test with the stacks of both places.
//
//	go run -C tools/locks . -race=false ./node ./server
//
// The arguments are those of go test. A lock that is taken twice by one goroutine, also a reader's lock, and two locks that
// are taken in both orders by whomever, are reported when they happen, not only when they collide. Nothing of the product
// is changed on disk: go test is given an overlay, in which sync.Mutex and sync.RWMutex are those of
// github.com/sasha-s/go-deadlock, and a go.mod that knows it.
package main
