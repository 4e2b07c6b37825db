// Package script contains txmgr exec, which runs statements on several participants in one
// transaction. They are given on the command line, or in a file: a script.
package script
