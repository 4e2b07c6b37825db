// Package commitwait waits for the decision of commits whose votes are missing: with the caller's
// goroutine, by [Wait], or as a request in the purgatory, by [Park]. Both give the same answer.
package commitwait
