// Package sdk is the manual of the Go client, as examples that run: two databases, a web service, a
// timeout, work that is done again, a second service that takes part, an embedded coordinator, an outcome in doubt. Each
// example is what an application would write; their common setup (private servers, tables, a
// coordinator) is in setup_test.go.
//
//	go test -v -run Example ./examples/sdk
package sdk
