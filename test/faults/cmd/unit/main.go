// Command unit is what the workers of the fault tests run: it works until it is
// killed. Each unit of work is one line at the end of a file, written at once:
// the process, the epoch and the worker that it works for, and the moment on
// the machine's boot-time clock. It obeys SIGTERM and ends with code 0, as
// servers do, or does not heed it if told so, as work that is never ready to stop.
//
//	unit FILE [stubborn]
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// pace is how long a unit of work takes. What two workers do at once for
// longer shows.
const pace = 5 * time.Millisecond

func main() {
	if err := work(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "work:", err)
		os.Exit(1)
	}
}

// work returns when it is asked to, or cannot go on.
func work(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name the file to write to")
	}
	terminate := make(chan os.Signal, 1)
	if len(args) > 1 {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(terminate, syscall.SIGTERM)
	}
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	who := fmt.Sprintf("%d %s %s", os.Getpid(), os.Getenv("LEADERBRIDGE_EPOCH"), os.Getenv("LEADERBRIDGE_IDENTITY"))
	for {
		if _, err := fmt.Fprintf(file, "%s %d\n", who, boottime.Now()); err != nil {
			return err
		}
		select {
		case <-terminate:
			return nil
		case <-time.After(pace):
		}
	}
}
