package node

import "github.com/txmgr/txmgr/txn/admin"

// adminCalls are the calls of operators. Their files are named after what they are about: status.go,
// doctor.go, membership.go, backup.go, participants.go, pools.go, indoubt.go, audit.go, tokens.go,
// queries.go and recovery_pause.go.
type adminCalls struct{ *Node }

// Admin returns the calls of operators, as this node answers them.
func (n *Node) Admin() admin.Calls { return adminCalls{n} }
