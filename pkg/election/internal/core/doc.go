// Package core decides what a candidate does: it is a function from a state,
// an input and the time to a new state and actions, with no clock, no I/O and
// no goroutine inside. Package election drives it.
package core
