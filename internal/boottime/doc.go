// Package boottime tells the time that has passed on this machine, also while
// it was suspended.
//
// Go's own monotonic clock stands still during a suspend on Linux and macOS. A
// program that measures a lease with it would wake up and believe that no time
// has gone by, while another machine has long taken the lease over. An
// [Instant] comes from a clock that keeps running: CLOCK_BOOTTIME on Linux,
// CLOCK_MONOTONIC_RAW on macOS. A process that was merely stopped (SIGSTOP, a
// debugger, a starved container) reads the right time again as soon as it runs.
//
// On Linux an Instant is absolute: every process of the machine reads the same
// clock, as long as it is in the same time namespace, so one process may hand
// an Instant to another.
//
// Elsewhere the package falls back to Go's monotonic clock and cross-checks it
// with the wall clock: whichever of the two has advanced further since the
// last reading is believed. So a wall clock that is set forward looks like
// time passed. A holder of a lease errs on the safe side with that; a program
// that waits for somebody else's lease to end must not rely on it, and should
// wait by [time.Since] there.
//
// Inside a testing/synctest bubble the package follows the bubble's fake
// clock, so that code which uses it needs no clock to be passed in. Instants
// from inside and outside a bubble cannot be compared.
package boottime
