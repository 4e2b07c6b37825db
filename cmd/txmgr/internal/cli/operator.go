package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// UserVariable names the operator for the audit.
const UserVariable = "TXMGR_USER"

// OperatorName is the name of the operator: user@host, unless the environment sets another one.
func (a *App) OperatorName() string {
	if who := strings.TrimSpace(a.Env(UserVariable)); who != "" {
		return who
	}
	name := a.Env("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}

// Confirm asks the operator. If the input is not a terminal, only --yes confirms.
func (a *App) Confirm(question string) error {
	if a.yes {
		return nil
	}
	in, ok := a.In.(*os.File)
	if a.noInput || !ok || !output.IsTerminal(in) {
		return output.Usage("--yes confirms it", "confirmation is required and cannot be asked for: %s", question)
	}
	_, _ = fmt.Fprint(a.Err, question+" [y/N] ") // an error of writing shows in the answer
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return output.Usage("", "nothing was changed: the answer was not yes")
}

// RequireReason returns an error if a change that cannot be undone has no reason.
func RequireReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return output.Usage(`give --reason "..."; it is recorded in the audit`, "no reason given")
	}
	return nil
}
