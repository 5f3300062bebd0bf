// Package watcher records the transitions of Leases that other software holds.
// It is what "leaderbridge watch" runs: it reads Leases and writes the log, and
// stands for nothing.
//
// One list-and-watch serves all Leases. Each has an election.Watcher, which
// turns a renewal into nothing and a change into a state for the log's
// Recorder. Moments at which a holder may have lapsed wait in one heap with one
// timer. A renewal does not move its entry; the entry finds out when it is due.
package watcher
