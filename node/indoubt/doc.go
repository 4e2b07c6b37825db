// Package indoubt is what an operator sees of unfinished and heuristic transactions, and may do
// about them: [Calls] lists them, explains one, and carries out what the explanation offers.
package indoubt
