// Package markertable is the table of marker rows: a row that commits with a branch proves the
// commit, and a barrier, which the coordinator writes, keeps a branch from writing its row. It
// creates the table, reads and writes its rows, and removes those that are not needed any more.
package markertable
