// Package participant contains the commands about participants: participant, which registers, tests
// and removes them, doctor, which checks them and the coordinator, and adaptive, which shows the
// limits of concurrent calls to them.
package participant
