package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/cli"
)

// common is what the root command gives to every subcommand.
type common struct {
	logging cli.Logging
	// log writes to standard error. It is set before a subcommand's RunE is
	// called, not earlier.
	log *slog.Logger
}

func newRoot() *cobra.Command {
	var c common
	root := &cobra.Command{
		Use:   "leaderbridge",
		Short: "Leader election whose every change is an event on NATS",
		Long: `leaderbridge stands for election on a Kubernetes Lease (or a NATS key) and
publishes what happens, became-leader, stopped-leading and new-leader, as
CloudEvents on NATS JetStream.

Every flag can be given by an environment variable too; the help texts name
them. A flag wins over its variable.`,
		Version: buildinfo.Version(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			c.log = c.logging.Logger(cmd.ErrOrStderr())
			return nil
		},
	}
	c.logging.AddFlags(root.PersistentFlags())
	root.AddCommand( // in the order of the help
		newRun(&c),
		newWatch(&c),
		newWorker(&c),
		newEvents(&c),
		newLeaders(&c),
		newStepDown(),
		newDemo(&c),
	)
	cli.Prepare(root)
	return root
}
