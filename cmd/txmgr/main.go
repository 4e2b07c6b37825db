// Command txmgr coordinates transactions that span several databases. It contains the server, the
// commands that drive and repair transactions, and a demo.
//
// Every command is a file of this package, or of a package below internal/cli, which also contains
// what commands share. internal/output defines what is printed and how; internal/demo contains the
// scenarios of the demo.
package main

import (
	"os"

	"github.com/txmgr/txmgr/cmd/txmgr/internal/cli"
)

func main() {
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	os.Exit(a.Run(rootCommand(a), os.Args[1:]))
}
