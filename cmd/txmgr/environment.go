package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// variable names the flag that an environment variable sets.
type variable struct{ name, flag string }

func globalEnvironment() []variable {
	return []variable{
		{"TXMGR_ADDR", "address"},
		{"TXMGR_TOKEN_FILE", "token-file"},
		{"TXMGR_CACERT", "cacert"},
		{"TXMGR_CERT", "cert"},
		{"TXMGR_KEY", "key"},
		{"TXMGR_OUTPUT", "output"},
		{"TXMGR_REQUEST_TIMEOUT", "request-timeout"},
		{"TXMGR_COLOR", "color"},
	}
}

// fromEnvironment sets the flags that are not on the command line to the values of the environment.
func fromEnvironment(flags *pflag.FlagSet, env func(string) string, vars []variable) error {
	for _, v := range vars {
		f := flags.Lookup(v.flag)
		value := env(v.name)
		if f == nil || f.Changed || value == "" {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return output.Usage("correct or unset "+v.name, "%s=%q: %v", v.name, value, err)
		}
	}
	return nil
}

func environmentTopic() *cobra.Command {
	long := `Flags take precedence over the environment, the environment over files, and files over
defaults.

Every command:
`
	for _, v := range globalEnvironment() {
		long += fmt.Sprintf("  %-28s --%s\n", v.name, v.flag)
	}
	long += fmt.Sprintf("  %-28s %s\n", tokenVariable, "the secret of the token itself; --token-file takes precedence")
	long += fmt.Sprintf("  %-28s %s\n", "NO_COLOR", "if it is set to any value: no colors, unless --color requests them")
	long += fmt.Sprintf("  %-28s %s\n", userVariable, "the name of the operator in the audit (default: user@host)")
	long += "\ntxmgr server:\n"
	for _, v := range serverEnvironment() {
		long += fmt.Sprintf("  %-28s --%s\n", v.name, v.flag)
	}
	long += `
The settings of a participant name the variable or the file in which each server,
and txmgr exec, finds the secret: txmgr participant add --dsn-env BANK_DSN.
`
	return &cobra.Command{Use: "environment", Short: "The environment variables", Long: long}
}
