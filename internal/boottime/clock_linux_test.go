package boottime

import (
	"fmt"
	"math"
	"os"
	"testing"
)

// The kernel's own uptime counts suspends too: an Instant is the time since
// boot, the same for every process.
func TestNowIsTheUptimeOfTheMachine(t *testing.T) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var uptime float64
	if _, err := fmt.Sscan(string(b), &uptime); err != nil {
		t.Fatal(err)
	}
	if got := float64(Now()) / 1e9; math.Abs(got-uptime) > 1 {
		t.Errorf("now is %.2f s after boot, /proc/uptime says %.2f s", got, uptime)
	}
}
