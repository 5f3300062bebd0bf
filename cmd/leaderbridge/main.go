// Command leaderbridge stands for election and publishes what happens to
// NATS. There is one file for each subcommand; this package only wires.
package main

import (
	"context"
	"io"
	"os"

	"github.com/leaderbridge/leaderbridge/internal/cli"
)

func main() {
	becomeGuard()
	ctx, stop := cli.SignalContext(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: arguments in, exit code out.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot() //nolint:contextcheck // the commands get the context when they run
	return cli.Execute(ctx, root, args, stdin, stdout, stderr)
}
