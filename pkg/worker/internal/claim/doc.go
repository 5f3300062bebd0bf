// Package claim decides what a worker does to get, keep and give up the grant
// of its role. It is a function from state, input and time to actions, without
// clock, I/O or goroutine: one goroutine owns a [State] and does what it says.
//
// The grant is what makes it safe, the log is what makes it fast. Whatever
// happens to messages, a grant ends, on the worker's own clock, before the
// leader counts it as over. The log only tells earlier: that there is a leader
// to ask, and that a term is over.
package claim
