// Package bench contains txmgr bench: measurements of the timeout structures and of the adaptive pool
// on this machine, without a server.
package bench
