// Package sqlstate names the error codes of PostgreSQL (SQLSTATE) that the driver handles, and tells
// what an error proves about the statement that was sent.
package sqlstate
