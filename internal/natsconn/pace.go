package natsconn

import "time"

// The waits between attempts: after a connection that had lasted the first
// one comes almost at once, for NATS may only have restarted; then they double
// up to a few seconds. A connection that did not last counts as one more
// failed attempt, so a server that accepts and drops is not stormed either.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 4 * time.Second
	lastedFor   = 10 * time.Second
)

// wait is the time before the n-th attempt, n from 1, with random from 0 to 1
// spreading it over the upper half, so that many clients do not come at once.
func wait(n int, random float64) time.Duration {
	full := longestWait
	// Shifting further than the bound would overflow.
	if shift := n - 1; shift < 10 {
		full = min(firstWait<<shift, longestWait)
	}
	return full/2 + time.Duration(random*float64(full/2))
}
