//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/pkg/worker/internal/lines"
)

// ErrTimeLimit is matched by the error of a run for an event that took longer
// than its limit.
var ErrTimeLimit = errors.New("the time limit of the run is over")

// ErrOutputLimit is matched by the error of a run for an event that wrote more
// than 16 MiB to its standard output.
var ErrOutputLimit = errors.New("the output is larger than 16 MiB")

const mostOutput = 16 << 20

// HandleEvent runs the command once, with an event on its standard input. When
// it has exited with code 0, each line of its standard output that is a
// CloudEvent in structured JSON is given to publish, in order and byte for
// byte, as long as the term is valid and publish returns nil. Any other line is
// logged. The command's Stdin, Stdout and Prefix are not used.
//
// A run that fails, is stopped or takes too long publishes nothing. As a run
// whose publishing failed half-way is likely to be made again for the same
// event, the command should derive the ids of its events from the one it was
// given, so that those published twice can be told.
//
// A run that the guard stopped is made again if the grant is renewed after all.
//
// It returns what [Runner.Handle] returns, the context's cause when it was
// stopped, an error that matches [ErrTimeLimit] or [ErrOutputLimit], or that of
// publish.
func (r *Runner) HandleEvent(ctx context.Context, t worker.Term, in []byte, publish func(ctx context.Context, event []byte) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, r.cmd.Time, ErrTimeLimit)
	defer cancel()
	err := errRenewed
	var out *lines.Buffer
	for errors.Is(err, errRenewed) {
		out = &lines.Buffer{Most: mostOutput}
		err = r.feed(limited, t, in, out)
	}
	switch {
	case limited.Err() != nil:
		return fmt.Errorf("running a command for an event: it was stopped: %w", context.Cause(limited))
	case out.Full:
		return fmt.Errorf("running a command for an event: %w", ErrOutputLimit)
	case err != nil:
		return err
	}
	return out.Publish(ctx, t, r.cmd.Logger, publish)
}

// feed makes one run with an event on its standard input.
func (r *Runner) feed(ctx context.Context, t worker.Term, in []byte, out io.Writer) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("running a command for an event: %w", err)
	}
	// An event is larger than a pipe may be.
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = write.Write(append(slices.Clip(in), '\n')) // the command need not read it
		write.Close()
	}()
	err = r.run(ctx, t, streams{in: read, out: out})
	read.Close()
	<-fed
	return err
}
