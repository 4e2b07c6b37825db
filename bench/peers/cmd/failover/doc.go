// Command failover kills the leader of three nodes of txmgr, repeatedly, while callers write, and
// measures how long it takes until writes are served again: with ten transactions open, and with a
// million. Then it checks that nothing that was acknowledged is lost, that no open transaction was
// ended early, and that deadlines in the time without a leader were met. It also measures how long
// a node that was down takes to catch up.
//
// Callers use the SDK with the addresses of all three nodes, and do not handle the failure of a
// call.
//
// It needs Linux, and builds txmgr from the checkout.
package main
