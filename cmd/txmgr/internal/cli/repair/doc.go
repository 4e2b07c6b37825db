// Package repair contains the commands of an operator for branches that do not end by themselves:
// indoubt, which explains and resolves them, recover, which compares what is prepared at the
// participants with the log, and audit, which lists what operators did.
package repair
