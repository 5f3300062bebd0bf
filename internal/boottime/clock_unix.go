//go:build linux || darwin

package boottime

import "golang.org/x/sys/unix"

func now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		// The kernel has the clock since long before the oldest one that Go
		// runs on. Going on with another clock would break the promise that
		// processes can exchange instants.
		panic("boottime: reading the boot-time clock: " + err.Error())
	}
	return Instant(ts.Nano())
}
