// Package connect makes the coordinator's connections to a PostgreSQL database from the settings of
// a registration. The connection string is read at each connect, and no error shows a password.
package connect
