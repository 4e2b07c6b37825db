// Command txmgr coordinates transactions that span several databases. It contains the server, the
// commands that drive and repair transactions, and a demo.
//
// Every command is a file of this package. internal/output defines what is printed and how;
// internal/demo contains the scenarios of the demo.
package main

import "os"

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}
	os.Exit(a.run(os.Args[1:]))
}
