// Package transaction contains the commands about single transactions and client sessions: begin, enlist,
// commit, rollback, extend, wait and session; and those that show transactions: list, inspect, watch
// and timeouts.
package transaction
