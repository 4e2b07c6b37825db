// Package admin defines what operators read and order: members, tokens and backups of a cluster,
// registered participants and their pools, the survival index, transactions in doubt, and the
// audit log. An embedded coordinator (node.Node) and the client (client.Client) have the [Calls]:
//
//	list, err := c.Admin().InDoubts(ctx) // []admin.InDoubt: what may need an operator
//
// Applications need only package txn. All types are values, and their JSON forms are part of
// the API and of the command line's output.
package admin
