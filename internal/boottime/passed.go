package boottime

import "time"

// passed returns how much time went by from one reading of Go's clock to the
// next, neither less than its monotonic part says, which stands still during
// a suspend, nor less than its wall-clock part says, which may be set.
func passed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)), 0)
}
