// Package sdk is the manual of the Go client, as examples that run: two databases,
// a web service, a timeout, a second service that takes part, a coordinator in
// one's own process, an outcome in doubt. Each example is what an application would
// write; what they share (private servers, tables, a coordinator) is in bed_test.go.
//
//	go test -v -run Example ./examples/sdk
package sdk
