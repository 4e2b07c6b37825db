// Package cluster contains the commands about the nodes of a cluster and who may call them: cluster,
// status and token.
package cluster
