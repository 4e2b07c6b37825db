// Command txmgr coordinates transactions that span several databases. It contains the server, the
// commands that drive and repair transactions, and a demo.
//
// Every command is a file of the package of its subject, below internal/cli: internal/cli/root lists
// them, and internal/cli is what they share. internal/output defines what is printed and how;
// internal/demo contains the scenarios of the demo.
package main

import (
	"os"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli/root"
)

func main() {
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	os.Exit(a.Run(root.Command(a), os.Args[1:]))
}
