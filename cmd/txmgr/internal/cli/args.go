package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

// GroupCommand sets up a command that only holds others: without arguments it prints its help, and
// an unknown argument is an error.
func GroupCommand(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return UnknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// UnknownCommand is the error that cmd has no command or topic word.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	next := output.DidYouMean(word, names, cmd.CommandPath()+" ")
	if next == "" {
		next = cmd.CommandPath() + " --help lists the commands"
	}
	return output.Usage(next, "unknown command %q for %q", word, cmd.CommandPath())
}

// FlagFailure turns an error of parsing flags into one that names the next step.
func FlagFailure(cmd *cobra.Command, err error) error {
	next := cmd.CommandPath() + " --help lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if waits := "wait-" + unknown.GetSpecifiedName(); cmd.Flags().Lookup(waits) != nil {
			// The timeout of a transaction is another one than that of a command that waits for it.
			return output.Usage("did you mean --"+waits+"?", "%v", err)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if did := output.DidYouMean(unknown.GetSpecifiedName(), names, "--"); did != "" {
			next = did
		}
	}
	return output.Usage(next, "%v", err)
}

// ArgCount checks the number of arguments; its error describes them by what.
func ArgCount(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return output.Usage(cmd.CommandPath()+" --help", "%s takes %s; %s given", cmd.CommandPath(), what, output.Plural(len(args), "argument", "arguments"))
	}
}

// NoArgs is for commands without arguments.
func NoArgs() cobra.PositionalArgs { return ArgCount(0, 0, "no arguments") }

// ParseLabels parses the values of --label, each of them key=value.
func ParseLabels(words []string) (map[string]string, error) {
	labels := make(map[string]string, len(words))
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, output.Usage("write it as --label key=value", "--label %q has no key and value", w)
		}
		if _, twice := labels[k]; twice {
			return nil, output.Usage("give each key once", "--label %s is given twice", k)
		}
		labels[k] = v
	}
	return labels, nil
}
