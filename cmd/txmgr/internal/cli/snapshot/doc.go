// Package snapshot contains txmgr snapshot: it saves the whole state of a cluster to a file, and
// inspects and restores such a file without a coordinator.
package snapshot
