//go:build !unix

package main

import (
	"context"
	"io"

	"github.com/leaderbridge/leaderbridge/internal/cli"
)

func becomeGuard() {}

// newCommand needs process groups and signals.
func (*workerCommand) newCommand(context.Context, context.CancelFunc, []string, io.Reader, io.Writer, io.Writer) (task, error) {
	return nil, cli.Usagef("commands cannot be run on this system, since nothing would end them in time: use --wasm")
}
