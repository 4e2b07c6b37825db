package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// maxShownIDs is how many transactions an ambiguous prefix lists.
const maxShownIDs = 5

// ResolveID finds the transaction that an argument names: a complete id, or a prefix of exactly one
// id; "tx_" may be left out.
func ResolveID(ctx context.Context, c *client.Client, arg string) (txn.ID, error) {
	prefix, err := idPrefix(arg)
	if err != nil {
		return txn.ID{}, err
	}
	if len(prefix) == txn.IDTextLen {
		return txn.ParseID(prefix)
	}
	found, err := c.List(ctx, admin.Filter{Prefix: prefix, Limit: maxShownIDs + 1})
	if err != nil {
		return txn.ID{}, err
	}
	switch len(found) {
	case 0:
		return txn.ID{}, &output.Failure{
			Code: txn.CodeNotFound, What: fmt.Sprintf("no transaction begins with %s", prefix),
			Cause: "it never existed, or it finished longer ago than the retention time", Hint: "txmgr list",
		}
	case 1:
		return found[0].ID, nil
	}
	var ids []string
	for _, t := range found[:min(len(found), maxShownIDs)] {
		ids = append(ids, t.ID.String())
	}
	if len(found) > maxShownIDs {
		ids = append(ids, "and others")
	}
	return txn.ID{}, output.Usage("give more characters of the id", "%s is the beginning of several transactions: %s", prefix, strings.Join(ids, ", "))
}

// idPrefix validates a typed id or prefix, and normalizes it.
func idPrefix(arg string) (string, error) {
	if cluster, id, branch, ok := txn.ParseXID(arg); ok {
		return "", output.Usage("its transaction is "+id.String(), "%s names branch %s of a transaction of cluster %s", arg, branch, cluster)
	}
	rest := strings.TrimPrefix(strings.ToLower(arg), txn.IDPrefix)
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	if rest == "" || len(rest) > txn.IDTextLen-len(txn.IDPrefix) || strings.Trim(rest, letters) != "" {
		return "", output.Usage("txmgr list shows the ids", "%q is not a transaction id: want %s and up to %d letters and digits", arg, txn.IDPrefix, txn.IDTextLen-len(txn.IDPrefix))
	}
	return txn.IDPrefix + rest, nil
}

// ExplainSession adds the next step to the error that a session does not exist.
func ExplainSession(err error) error {
	if txn.CodeOf(err) != txn.CodeNotFound {
		return err
	}
	f := *output.Explain(err)
	f.Hint = "txmgr session list --ended shows the sessions; txmgr session open opens a new one"
	return &f
}
