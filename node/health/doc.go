// Package health is the checks of the call Doctor: of the host and the node ([NodeFacts]), and of
// each participant ([Participants]). They change nothing, and a check that cannot be run is a
// result, not an error.
package health
