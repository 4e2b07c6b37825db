// Package crash contains the crash matrix: a real coordinator with real PostgreSQL servers is
// killed at every step of the protocol, and afterwards nothing acknowledged may be lost, every
// transaction must have ended completely, and nothing may be left prepared. It contains only tests;
// they run the command line's server, built with the failpoints of internal/failpoint.
package crash
