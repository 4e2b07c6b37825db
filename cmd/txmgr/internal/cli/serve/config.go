package serve

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/yamlfile"
)

// ConfigCommand returns txmgr config.
func ConfigCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Create, show and validate the settings of servers",
		Long:  "Create, show and validate the settings of servers. These commands do not call a coordinator.",
	}
	cli.GroupCommand(cmd)
	cmd.AddCommand(configInitCommand(a), configShowCommand(a), configValidateCommand(a))
	return cmd
}

// setting is one setting of a server, and the source of its value.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func configShowCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show the settings that a server would have, and their sources",
		Long: `Show the settings that txmgr server would have with FILE and this environment, and the
source of each: the default if nothing sets it. A setting that is "not set" has no
default: its function is off. An existing data directory keeps the interval and the
retention time that it was created with.`,
		Example:           "  txmgr config show /etc/txmgr/server.yaml\n  TXMGR_SERVER_LOG_LEVEL=debug txmgr config show -o json",
		Args:              cli.ArgCount(0, 1, "at most FILE"),
		ValidArgsFunction: cli.CompleteFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			_, settings, err := settings(a, args)
			if err != nil {
				return err
			}
			t := output.Table{Columns: output.Columns("SETTING", "VALUE", "FROM")}
			var ids []string
			for _, s := range settings {
				t.Add(s.Key, s.Value, s.Source)
				ids = append(ids, s.Key)
			}
			return a.Print.Print(output.Document{Value: settings, IDs: ids, Tables: []output.Table{t}})
		},
	}
}

// settings reads a file as a server would, and returns each setting with the source of its value.
func settings(a *cli.App, args []string) (*serverOptions, []setting, error) {
	o := new(serverOptions)
	f := pflag.NewFlagSet("server", pflag.ContinueOnError)
	o.flags(f)
	from := map[string]string{}
	for _, v := range Environment() {
		if a.Env(v.Name) != "" {
			from[v.Flag] = v.Name
		}
	}
	if len(args) == 1 {
		if err := f.Set("config", args[0]); err != nil {
			return nil, nil, err
		}
		root, err := yamlfile.Read(args[0])
		if err != nil {
			return nil, nil, err
		}
		if root != nil {
			for i := 0; i+1 < len(root.Content); i += 2 {
				name := strings.ReplaceAll(root.Content[i].Value, "_", "-")
				if from[name] == "" {
					from[name] = args[0] + ":" + strconv.Itoa(root.Content[i].Line)
				}
			}
		}
	}
	if err := o.resolve(f, a.Env); err != nil {
		return nil, nil, err
	}
	var all []setting
	f.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		s := setting{Key: strings.ReplaceAll(f.Name, "-", "_"), Value: f.Value.String(), Source: from[f.Name]}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			s.Value = strings.Join(several.GetSlice(), ",")
		}
		if s.Source == "" {
			s.Value, s.Source = o.effectiveDefault(f.Name, s.Value)
		}
		all = append(all, s)
	})
	return o, all, nil
}
