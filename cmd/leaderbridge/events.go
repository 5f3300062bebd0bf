package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/show"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// lastByDefault is how much of the past is shown unless something is said of
// it: enough to see where things stand.
const lastByDefault = 10

func newEvents(c *common) *cobra.Command {
	var (
		r         reader
		elections []string
		types     []string
		output    string
		since     moment
		q         show.Query
	)
	cmd := &cobra.Command{
		Use:   "events [ELECTION...]",
		Short: "Follow or replay the log of all elections",
		Long: `Show the latest events of the log, and go on with each new one until
interrupted. An ELECTION is NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, and *
stands for any part. Without one, all are shown.

-o json prints one CloudEvent a line, in the structured form of the JSON format.`,
		Example: `  leaderbridge events
  leaderbridge events prod/scheduler --last 100 --follow=false
  leaderbridge events --since 24h --type stopped-leading
  leaderbridge events --since 2026-01-31T12:00:00Z -o json --follow=false > events.jsonl`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.Choice, err = parseSelection(append(args, elections...)); err != nil {
				return err
			}
			if q.Types, err = parseTypes(types); err != nil {
				return err
			}
			if q.Last < 0 {
				return cli.Usagef("--last %d: must not be negative", q.Last)
			}
			q.Since, q.Patience = since.before(time.Now()), r.timeout
			if !cmd.Flags().Changed("last") && q.Since.IsZero() {
				q.Last = lastByDefault
			}
			log := c.logging.QuietLogger(cmd.ErrOrStderr(), cmd.Flags())
			screen := show.NewScreen(cmd.OutOrStdout())
			return r.read(cmd.Context(), "leaderbridge events", q.Follow, log, func(l *events.Log) error {
				return show.Events(cmd.Context(), l, q, show.Format(output), screen, log)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&elections, "election", nil, "same as the arguments, a `list` separated by commas")
	flags.StringSliceVar(&types, "type", nil, "only these kinds, a `list` of became-leader, stopped-leading, new-leader")
	flags.Var(&since, "since", "begin so long ago (90s, 24h, 7d) or at a `time` (2026-01-31T12:00:00Z)")
	flags.IntVar(&q.Last, "last", 0, fmt.Sprintf("show at most so many events of the past, 0 is all of them (default %d, or all with --since)", lastByDefault))
	flags.BoolVarP(&q.Follow, "follow", "f", true, "go on with new events")
	cli.ChoiceVarP(flags, &output, "output", "o", "table", "form of the output", "table", "wide", "json", "yaml")
	r.add(flags)
	return cmd
}

func parseTypes(names []string) ([]events.Transition, error) {
	var types []events.Transition
	for _, n := range names {
		switch t := events.Transition(strings.TrimSpace(n)); t {
		case events.BecameLeader, events.StoppedLeading, events.NewLeader:
			types = append(types, t)
		default:
			return nil, cli.Usagef("--type %q: must be became-leader, stopped-leading or new-leader", n)
		}
	}
	return types, nil
}
