// Package crash holds the crash matrix: a real coordinator, killed at every step
// of the protocol, over real PostgreSQL servers, which then have to show that
// nothing acknowledged was lost, every transaction ended as a whole, and nothing
// was left prepared. It has tests only; they run the command line's server, built
// with the failpoints of internal/failpoint.
package crash
