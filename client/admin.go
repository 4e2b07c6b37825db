package client

import "github.com/txmgr/txmgr/txn/admin"

// adminCalls are the calls of operators.
type adminCalls struct{ *Client }

// Admin returns the calls of operators, which the coordinator answers if the client's token has the
// role that they need.
func (c *Client) Admin() admin.Calls { return adminCalls{c} }
