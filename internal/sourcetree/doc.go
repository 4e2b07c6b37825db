// Package sourcetree reads the repository's Go source for tests that judge it: the
// house rules of internal/archtest and the documentation tests of
// internal/doctest.
//
// A [Tree] holds every Go file of one module, parsed, grouped by folder; a
// [Checker] gives types to such files from the compiler's export data. Both need
// the standard library and the go command only.
//
// # Invariants
//
//  1. Files of all build tags and of tests belong to a Tree: a rule that a build
//     tag could switch off would be no rule.
//  2. testdata, folders whose name begins with "." or "_", and nested modules do
//     not belong to it, as they do not for the go command.
//  3. Packages and files come in the order of their paths.
//
// # Concurrency
//
// A Tree is not changed after [Load]. A Checker has one user at a time.
//
// # What it does not do
//
// It does not resolve build constraints, and it does not expand patterns.
package sourcetree
