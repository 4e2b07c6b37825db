package repair

import (
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// explanationWithCommands is an explanation as it is printed for programs.
type explanationWithCommands struct {
	admin.Explanation
	Actions []actionWithCommand `json:"actions"` // in place of those of the explanation
}

type actionWithCommand struct {
	admin.Action
	Command string `json:"command,omitempty"` // to paste
}

// withCommands adds to the actions the commands to paste.
func withCommands(e admin.Explanation) explanationWithCommands {
	actions := make([]actionWithCommand, len(e.Actions))
	for i, c := range e.Actions {
		actions[i] = actionWithCommand{c, actionCommand(c, e.Transaction.ID)}
	}
	return explanationWithCommands{e, actions}
}

// actionCommand returns the command line for an action; empty if the action is refused or unknown.
func actionCommand(c admin.Action, id txn.ID) string {
	if !c.Allowed {
		return ""
	}
	switch c.Name {
	case admin.ActionRetry:
		return "txmgr indoubt retry " + id.String()
	case admin.ActionCommit:
		return "txmgr indoubt resolve " + id.String() + " --commit --reason '...'"
	case admin.ActionRollback:
		return "txmgr indoubt resolve " + id.String() + " --rollback --reason '...'"
	case admin.ActionForget:
		return "txmgr indoubt forget " + id.String() + " --reason '...'"
	}
	return ""
}
