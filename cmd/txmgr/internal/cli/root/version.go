package root

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
	"github.com/txmgr/txmgr/node"
)

type versionView struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Platform string `json:"platform"`
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long: `Show the version of this program: the version that was stamped into it when it was built,
or else what the go command knows of the module, or else devel- and the beginning of the
program's SHA-256. txmgr status and txmgr cluster status show the versions of servers.`,
		Example:           "  txmgr version -o json",
		Args:              cli.NoArgs(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := version()
			t := output.Table{Columns: output.Columns("VERSION", "GO", "PLATFORM", "REVISION")}
			revision := v.Revision
			if v.Modified {
				revision += " (modified)"
			}
			t.Add(v.Version, v.Go, v.Platform, revision)
			return a.Print.Print(output.Document{Value: v, IDs: []string{v.Version}, Tables: []output.Table{t}})
		},
	}
}

// version reads the build information of the program.
func version() versionView {
	v := versionView{Version: node.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
