package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the signalled program when this variable is set.
const signalChild = "CLI_TEST_SIGNAL_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(signalChild) != "" {
		ctx, _ := SignalContext(context.Background())
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("cancelled")
		time.Sleep(time.Minute) // a clean stop that takes too long
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSecondSignalLeavesAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) { // under nohup, and then it has to stay so
			continue
		}
		t.Run(sig.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0])
			child.Env = append(os.Environ(), signalChild+"=1")
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for _, want := range []string{"ready", "cancelled"} {
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), want)
				}
				if err := child.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			err = child.Wait()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != 128+int(sig) {
				t.Errorf("got %v, want exit code %d", err, 128+int(sig))
			}
		})
	}
}
