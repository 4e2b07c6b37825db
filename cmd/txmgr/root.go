package main

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

const defaultRequestTimeout = 10 * time.Second

// The groups of commands in the help.
const (
	groupTransactions = "transactions"
	groupRepair       = "repair"
	groupParticipants = "participants"
	groupServer       = "server"
	groupCluster      = "cluster"
)

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "txmgr",
		Short: "Commit one transaction across several databases",
		Long: `txmgr coordinates transactions that span several databases: every database ends as
decided, on time, whatever crashes.

Start here:  txmgr demo    runs a demo of txmgr (half a minute)
             txmgr dev     runs a temporary server to try the commands on`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
	}
	groupCommand(root)
	root.SetFlagErrorFunc(flagFailure)
	root.AddGroup(
		&cobra.Group{ID: groupTransactions, Title: "Transactions:"},
		&cobra.Group{ID: groupRepair, Title: "Inspect and resolve:"},
		&cobra.Group{ID: groupParticipants, Title: "Participants:"},
		&cobra.Group{ID: groupServer, Title: "Server:"},
		&cobra.Group{ID: groupCluster, Title: "Cluster:"},
	)
	addGroup(root, groupTransactions, beginCommand(a), enlistCommand(a), commitCommand(a), rollbackCommand(a), extendCommand(a), waitCommand(a), execCommand(a), sessionCommand(a))
	addGroup(root, groupRepair, listCommand(a), inspectCommand(a), watchCommand(a), timeoutsCommand(a), indoubtCommand(a), recoverCommand(a), auditCommand(a), doctorCommand(a))
	addGroup(root, groupParticipants, participantCommand(a), adaptiveCommand(a))
	addGroup(root, groupServer, serverCommand(a), devCommand(a), demoCommand(a), benchCommand(a), statusCommand(a), configCommand(a))
	addGroup(root, groupCluster, clusterCommand(a), tokenCommand(a), snapshotCommand(a))
	root.AddCommand(versionCommand(a), exitCodesTopic(), environmentTopic(), statesTopic())
	root.SetHelpCommand(helpCommand())
	globalFlags(a, root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp))                   // the flags
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)) // are there
	return root
}

func addGroup(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

func globalFlags(a *app, f *pflag.FlagSet) {
	f.StringVar(&a.address, "address", client.DefaultAddress, "address of the coordinator, or of several of its nodes, separated by commas (TXMGR_ADDR)")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the secret of the token (TXMGR_TOKEN_FILE; TXMGR_TOKEN is the secret itself)")
	f.StringVar(&a.caCert, "cacert", "", "PEM file with the certificates that the coordinator is verified against (TXMGR_CACERT)")
	f.StringVar(&a.cert, "cert", "", "PEM file with the certificate of the client (TXMGR_CERT)")
	f.StringVar(&a.key, "key", "", "PEM file with the key of that certificate (TXMGR_KEY)")
	f.StringVarP(&a.format, "output", "o", "table", "output format: "+strings.Join(output.Formats(), ", ")+" (TXMGR_OUTPUT)")
	f.DurationVar(&a.requestTimeout, "request-timeout", defaultRequestTimeout, "time to wait for the coordinator (TXMGR_REQUEST_TIMEOUT)")
	f.StringVar(&a.color, "color", "auto", "colored output: auto, always or never (TXMGR_COLOR, NO_COLOR)")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print no notes and no progress")
	f.BoolVarP(&a.yes, "yes", "y", false, "answer yes to every question")
	f.BoolVar(&a.noInput, "no-input", false, "never ask: fail instead of asking a question")
}

// groupCommand sets up a command that only holds others: without arguments it prints its help, and
// an unknown argument is an error.
func groupCommand(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

func unknownCommand(cmd *cobra.Command, word string) error {
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

func flagFailure(cmd *cobra.Command, err error) error {
	next := cmd.CommandPath() + " --help lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if did := output.DidYouMean(unknown.GetSpecifiedName(), names, "--"); did != "" {
			next = did
		}
	}
	return output.Usage(next, "%v", err)
}

// argCount checks the number of arguments; its error describes them by what.
func argCount(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return output.Usage(cmd.CommandPath()+" --help", "%s takes %s; %s given", cmd.CommandPath(), what, output.Plural(len(args), "argument", "arguments"))
	}
}

// noArgs is for commands without arguments.
func noArgs() cobra.PositionalArgs { return argCount(0, 0, "no arguments") }

// checkAddress parses one address, or several separated by commas. The scheme may be left out; it
// is https if certificates are given.
func checkAddress(list string, secure bool) (string, error) {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	var full []string
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = scheme + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", output.Usage("write it like "+client.DefaultAddress, "address %q is not an http address", s)
		}
		full = append(full, s)
	}
	return strings.Join(full, ","), nil
}
