// Package output holds the rules of what the command line prints, in one place.
//
//  1. What was asked for goes to standard output, and nothing else does: the
//     output of every command can be piped. Notes, progress, questions and
//     errors go to standard error.
//  2. Every command speaks every format: table (the default), wide, json, jsonl,
//     yaml and id. Names in json, jsonl and yaml are part of the API.
//  3. A table has a header and no border. Its cells hold no control characters,
//     whatever a name or a database put there. A page has no border either; its
//     text is broken at spaces, except what is to be pasted.
//  4. No colour off a terminal, or when NO_COLOR is set.
//  5. An error says what, why, where things are now and what to do; the exit
//     code says the same to a script. With -o json and its kin the error is an
//     object on standard error.
//  6. An empty list is an answer, not an error.
//  7. Sentences of errors begin in lower case and end without a full stop.
//
// # Concurrency
//
// A [Printer] is for one goroutine, except [Printer.Note], which may be called
// from several.
//
// # What it does not do
//
// It asks nobody anything and knows no command.
package output
