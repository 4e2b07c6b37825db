// Package provision creates the files that the nodes of a cluster need before they start: a private
// authority, certificates, a root token, and a settings file for each node. Call [Make]:
//
//	node, err := provision.ParseNode("n1=10.0.0.1")
//	files, err := provision.Make(provision.Spec{Dir: "cluster", Nodes: []provision.Node{node}})
//
// With it TLS and tokens take one command, so that a trial installation has them too: it may become
// the production one.
//
// # Invariants
//
//  1. An existing file is never changed, except that the nodes of a run are added to the addresses
//     in the environment files of existing clients. A run that was interrupted is completed by the
//     next one, and a later run adds what it names and is missing.
//  2. Keys and tokens are written with mode 0600, in directories of mode 0700, and are never
//     printed.
//  3. The directory of a node is all that its machine needs: it can be copied there. None of them
//     contains the key of the authority.
//  4. A node that is added to existing ones does not wait for them to bootstrap: it joins. The
//     nodes of one run wait for one another.
//
// # What it does not do
//
// It does not renew certificates: delete a certificate with its key, and run it again.
package provision
