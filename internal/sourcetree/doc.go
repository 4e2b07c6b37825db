// Package sourcetree reads the Go source of the repository for the tests that check it: the rules
// of internal/archtest and the documentation tests of internal/doctest. Call [Load]:
//
//	tree, err := sourcetree.Load(os.DirFS(root))
//
// A [Tree] contains every Go file of one module, parsed, grouped by directory; a [Checker]
// type-checks such files with the compiler's export data. Both need only the standard library and
// the go command.
//
// # Invariants
//
//  1. Files of all build tags and of tests belong to a Tree: a build tag must not exempt a file
//     from a rule.
//  2. testdata, directories whose name begins with "." or "_", and nested modules do not belong to
//     it, as for the go command.
//  3. Packages and files are in the order of their paths.
//
// # Concurrency
//
// A Tree is not changed after [Load]. A Checker has one user at a time.
//
// # What it does not do
//
// It does not resolve build constraints, and it does not expand patterns.
package sourcetree
