// Package procenv runs the real leaderbridge command as child processes of a
// test: built once for a test binary, with the race detector, and killed at
// the end whatever happens.
package procenv
