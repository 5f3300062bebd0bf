// Package core decides what a candidate does: a state that takes one input and
// the present moment at a time, and answers with actions. There is no clock,
// no I/O and no goroutine inside, so that millions of histories can be tried.
// Package election drives it.
//
// Start with State.Step. It has two halves: the input changes what the state
// knows (input.go), and decide then does what is due (decide.go). The second
// half looks only at the state, never at the input that led there, so that a
// late, lost or doubled input cannot leave work undone.
//
// The comments name the rules S1 to S9 that docs/architecture.md explains.
package core
