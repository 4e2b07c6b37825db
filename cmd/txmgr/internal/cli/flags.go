package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/output"
)

const defaultRequestTimeout = 10 * time.Second

// Flags defines the flags that all commands have.
func (a *App) Flags(f *pflag.FlagSet) {
	a.connection.flags(f)
	f.StringVarP(&a.format, "output", "o", "table", "output format: "+strings.Join(output.Formats(), ", ")+" (TXMGR_OUTPUT)")
	f.DurationVar(&a.RequestTimeout, "request-timeout", defaultRequestTimeout, "time to wait for the coordinator (TXMGR_REQUEST_TIMEOUT)")
	f.StringVar(&a.color, "color", "auto", "colored output: auto, always or never (TXMGR_COLOR, NO_COLOR)")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print no notes and no progress")
	f.BoolVarP(&a.yes, "yes", "y", false, "answer yes to every question")
	f.BoolVar(&a.noInput, "no-input", false, "never ask: fail instead of asking a question")
}

// Prepare determines the values of the flags that all commands have: flags take precedence over the
// environment, and the environment over defaults.
func (a *App) Prepare(cmd *cobra.Command) error {
	if err := FromEnvironment(cmd.Flags(), a.Env, Environment()); err != nil {
		return err
	}
	if a.RequestTimeout <= 0 {
		return output.Usage("give a positive duration, for example 10s", "--request-timeout is %v", a.RequestTimeout)
	}
	format, err := output.ParseFormat(a.format)
	if err != nil {
		return err
	}
	a.loadToken(cmd.Flags())
	noColor := a.Env("NO_COLOR") != "" || a.Env("TERM") == "dumb"
	a.Print = &output.Printer{
		Out: a.Out, Err: a.Err, Format: format, Quiet: a.Quiet,
		ColorOut: output.ColorFor(a.color, noColor, a.Out),
		ColorErr: output.ColorFor(a.color, noColor, a.Err),
		Width:    output.WidthOf(a.Out),
	}
	switch a.color {
	case "auto", "always", "never":
		return nil
	}
	return output.Usage("use auto, always or never", "--color is %q", a.color)
}

// outputFormat returns the output format that a command line asks for, even if the rest of the line
// cannot be parsed.
func (a *App) outputFormat(args []string) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.Usage = func() {}
	format := f.StringP("output", "o", a.Env("TXMGR_OUTPUT"), "")
	_ = f.Parse(args) // errors of parsing are reported already
	return *format
}
