// Package connect makes the coordinator's connections to a MariaDB database from the settings of a
// registration. The connection string is read at each connect, no error shows a password, and a
// server that cannot keep txmgr's guarantees is refused.
package connect
