// Package events is the contract between leaderbridge and everybody who reads
// it: the transitions of an election as CloudEvents, their subjects, and the
// log in JetStream that holds them in order.
package events
