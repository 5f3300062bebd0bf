//go:build !unix

package main

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

func becomeGuard() {}

// commandWork is a command as the work of a term, which takes process groups
// and signals.
type commandWork struct{}

func (*commandWork) add(*pflag.FlagSet) {}

func (*commandWork) check() error { return nil }

func (*commandWork) prepare(context.Context, context.CancelFunc, []string, io.Reader, io.Writer, io.Writer) (*job, error) {
	return nil, cli.Usagef("commands cannot be run on this system: nothing would end them in time")
}

type job struct{}

func (*job) close()                                    {}
func (*job) handle(context.Context, worker.Term) error { return nil }
func (*job) exit(err error) error                      { return err }
