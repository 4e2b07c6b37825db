// Package root assembles the commands of all subjects to the command txmgr. It contains those that
// belong to no subject: the demo, the version, and the topics of the help.
package root
