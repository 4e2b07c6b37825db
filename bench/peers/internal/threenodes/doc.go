// Package threenodes runs three processes of etcd, or of txmgr server, on loopback as one cluster, each
// with its log in a directory of its own, with their default settings. It can kill and restart a
// process, and finds the leader. Call [StartEtcd] or [StartTxmgr].
package threenodes
