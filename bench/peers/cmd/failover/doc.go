// Command failover kills the leader of three nodes of txmgr, again and again, while callers write, and measures how long it
// takes until writes are served again: with ten transactions open, and with a million. Then it looks whether anything that
// was answered is lost, whether any open transaction was ended that should not have been, and whether deadlines that fell
// into the time without a leader were kept. It also measures how long a node takes to catch up that was away.
//
// Callers use the SDK with the addresses of all three nodes, and do nothing themselves about a call that fails.
//
// It needs Linux, and builds txmgr from the checkout.
package main
