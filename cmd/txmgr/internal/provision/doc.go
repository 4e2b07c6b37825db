// Package provision makes what the nodes of a cluster are given before they start: a
// private authority, certificates, a root token, and a file of settings for each.
//
// It exists so that TLS and tokens cost one command, and nobody leaves them out for a
// try that becomes production.
//
// # Invariants
//
//  1. Nothing that is there is ever changed, except that nodes of a run are added to the
//     addresses in the environment of clients that were made before. A run that was
//     interrupted is completed by the next one, and a later run adds what it names and is
//     missing.
//  2. Keys and tokens are made with mode 0600, in directories of mode 0700, and are
//     never printed.
//  3. The directory of a node is all that its machine needs: it can be copied there.
//     The key of the authority is in none of them.
//  4. A node that is added to others that were made before expects none of them to
//     wait for it: it joins. Nodes of one run wait for one another.
//
// # What it does not do
//
// It does not renew certificates: delete one with its key, and run it again.
package provision
