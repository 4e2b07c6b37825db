// Package output formats what the command line prints. Fill a [Document] and call [Printer.Print],
// or [Printer.Fail] with an error:
//
//	p := &output.Printer{Out: os.Stdout, Err: os.Stderr, Format: output.JSONFormat}
//	err := p.Print(output.Document{Value: v, IDs: []string{id}, Tables: []output.Table{t}})
//	code := p.Fail(err)
//
// # Invariants
//
//  1. The result goes to standard output, and nothing else does: the output of every command can be
//     piped. Notes, progress, questions and errors go to standard error.
//  2. Every command supports every format: table (the default), wide, json, jsonl, yaml and id.
//     Names in json, jsonl and yaml are part of the API.
//  3. A table has a header and no border. Its cells contain no control characters, whatever a name
//     or a database contains. A page has no border either; its text is broken at spaces, except
//     text for copying.
//  4. Colours are used only on a terminal, and not if NO_COLOR is set.
//  5. An error names what failed, the cause, the present state and the next step; the exit code
//     says the same to a script. With -o json, jsonl and yaml the error is an object on standard
//     error.
//  6. An empty list is a result, not an error.
//  7. Error messages begin in lower case and end without a full stop.
//
// # Concurrency
//
// A [Printer] is for one goroutine, except [Printer.Note], which may be called
// from several.
//
// # What it does not do
//
// It asks no questions and contains no command.
package output
