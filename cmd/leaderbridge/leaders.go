package main

import (
	"github.com/spf13/cobra"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/show"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

func newLeaders(c *common) *cobra.Command {
	var (
		r         reader
		elections []string
		output    string
		watch     bool
	)
	cmd := &cobra.Command{
		Use:   "leaders [ELECTION...]",
		Short: "Show who leads what, since when, in which epoch",
		Long: `Show who leads what, by the log alone: who may read the stream needs nothing
else. An ELECTION is NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, and * stands for
any part. Without one, all are shown.

SINCE is how long the leader leads, or nobody does. LEASE LEFT is how long the
election stays taken at most if nobody renews it from now on. The log does not
tell of renewals, so under a leader that is always a whole lease. REASON is why
the last term began or ended.`,
		Example: `  leaderbridge leaders
  leaderbridge leaders prod/scheduler -o wide
  leaderbridge leaders 'prod/*' --watch
  leaderbridge leaders -o json | jq -r '.[] | select(.leader == "") | .lease'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			choice, err := parseSelection(append(args, elections...))
			if err != nil {
				return err
			}
			log := c.logging.QuietLogger(cmd.ErrOrStderr(), cmd.Flags())
			screen := show.NewScreen(cmd.OutOrStdout())
			return r.read(cmd.Context(), "leaderbridge leaders", watch, log, func(l *events.Log) error {
				if watch {
					return show.WatchLeaders(cmd.Context(), l, choice, show.Format(output), screen, log)
				}
				return show.Leaders(cmd.Context(), l, choice, show.Format(output), r.timeout, screen)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&elections, "election", nil, "same as the arguments, a `list` separated by commas")
	cli.ChoiceVarP(flags, &output, "output", "o", "table", "form of the output", "table", "wide", "json", "yaml")
	flags.BoolVarP(&watch, "watch", "w", false, "go on and show each change")
	r.add(flags)
	return cmd
}
