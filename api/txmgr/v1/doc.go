// Package txmgrv1 holds the messages of the API txmgr.v1, generated from the
// .proto files beside this one, which are the reference. Package txmgrv1connect
// holds its services, package api/wire the ways between these messages and the
// vocabulary of package txn.
//
// Numbers and names of fields are a contract with every client ever released:
// they are added to, never changed. Run api/generate.sh after an edit.
package txmgrv1
