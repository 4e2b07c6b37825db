// Command txmgr coordinates transactions that span several databases: it is the
// server, the tool to drive and to repair transactions, and a guided tour.
//
// Every command is a file of this package. What is printed, and how, is the
// business of internal/output; what the demo shows, of internal/demo.
package main

import "os"

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}
	os.Exit(a.run(os.Args[1:]))
}
