package cli

import (
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// Variable names the flag that an environment variable sets.
type Variable struct{ Name, Flag string }

// Environment lists the variables that set the flags of all commands, beside [TokenVariable].
func Environment() []Variable {
	return []Variable{
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

// FromEnvironment sets the flags that are not on the command line to the values of the environment.
func FromEnvironment(flags *pflag.FlagSet, env func(string) string, vars []Variable) error {
	for _, v := range vars {
		f := flags.Lookup(v.Flag)
		value := env(v.Name)
		if f == nil || f.Changed || value == "" {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return output.Usage("correct or unset "+v.Name, "%s=%q: %v", v.Name, value, err)
		}
	}
	return nil
}
