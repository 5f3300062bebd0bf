package boottime

import "golang.org/x/sys/unix"

// macOS documents CLOCK_MONOTONIC_RAW as running on while the system sleeps,
// in contrast to CLOCK_UPTIME_RAW, which Go's own clock corresponds to.
const clockID = unix.CLOCK_MONOTONIC_RAW
