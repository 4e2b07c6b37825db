// Package serve contains the commands that run coordinators, server and dev; and config, which
// creates, shows and validates the settings of servers. Settings come from flags, the environment and
// a file, in this order.
package serve
