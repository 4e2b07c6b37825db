// Package health checks a PostgreSQL server, and the coordinator's user there, for what is known to
// go wrong.
package health
