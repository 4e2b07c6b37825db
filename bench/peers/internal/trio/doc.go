// Package trio runs three processes of etcd, or of txmgr server, on loopback as one cluster, each with its log in a directory
// of its own, with their default settings. It can kill a process and start it again, and knows who leads.
package trio
