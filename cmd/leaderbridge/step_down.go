package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// The exit codes of step-down, apart from 0, 1 and 2.
const (
	exitRefused  = 3
	exitNobody   = 4
	exitTimedOut = 5
)

// stepDownCommand is "leaderbridge step-down".
type stepDownCommand struct {
	source  logFlags
	to      string
	timeout time.Duration
}

func newStepDown() *cobra.Command {
	s := &stepDownCommand{}
	cmd := &cobra.Command{
		Use:   "step-down [cluster/]namespace/name",
		Short: "Ask a leader to hand over",
		Long: `Ask the leader of an election to hand over, wait, and tell who leads now.

With --to the other candidates hold back for a moment, so that the one named is
likely, but not certain, to be next.

Exit codes: 0 somebody else leads, 2 bad input, 3 the leader refused, 4 there
is no leader to ask, 5 the time was over before anybody led, 1 anything else.`,
		Example: `  leaderbridge step-down prod/scheduler
  leaderbridge step-down prod/scheduler --to pod-b_5f2c --timeout 10s`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := parseElection(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			if e.Namespace == "" || e.Lease == "" {
				return cli.Usagef("election %q: name one election, without *", args[0])
			}
			if e.Cluster == "" {
				e.Cluster = "default"
			}
			return s.run(cmd.Context(), e, cmd.OutOrStdout())
		},
	}
	s.flags(cmd.Flags())
	return cmd
}

func (s *stepDownCommand) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.to, "to", "", "`identity` of the candidate that should be next")
	flags.DurationVar(&s.timeout, "timeout", 30*time.Second, "how long to wait for the next leader")
	s.source.addRead(flags)
}

func (s *stepDownCommand) run(ctx context.Context, e events.Election, out io.Writer) error {
	if s.timeout <= 0 {
		return cli.Usagef("--timeout %s must be above zero", s.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := s.source.connect(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return cli.Exit(exitTimedOut, fmt.Errorf("connect to NATS: %w", err))
	}
	opts := s.source.at(conn)
	opts.ReadOnly = true
	log, err := events.Open(ctx, conn.Conn, opts)
	if err != nil {
		return err
	}
	begun := time.Now()
	answer, err := s.ask(ctx, conn.Conn, e)
	if err != nil {
		return err
	}
	next, err := awaitLeader(ctx, log, e, answer.Epoch)
	if err != nil {
		return cli.Exit(exitTimedOut, fmt.Errorf("%s hands over %s, and nobody was seen to follow within %s: %w", answer.Leader, e, s.timeout, err))
	}
	_, err = fmt.Fprintf(out, "%s leads %s in term %d, after %s; before it led %s\n", next.Leader, e, next.Epoch, time.Since(begun).Round(time.Millisecond), answer.Leader)
	return err
}

// ask sends the request. Only a leader answers.
func (s *stepDownCommand) ask(ctx context.Context, nc *nats.Conn, e events.Election) (events.StepDownAnswer, error) {
	var answer events.StepDownAnswer
	body, err := json.Marshal(events.StepDownRequest{To: s.to})
	if err != nil {
		return answer, err
	}
	msg, err := nc.RequestWithContext(ctx, e.RequestSubject(s.source.events.Prefix, events.StepDownVerb), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return answer, cli.Exit(exitNobody, fmt.Errorf("nobody leads %s, or its leader cannot reach NATS", e))
	case errors.Is(err, context.DeadlineExceeded):
		return answer, cli.Exit(exitTimedOut, fmt.Errorf("the leader of %s did not answer within %s", e, s.timeout))
	case err != nil:
		return answer, fmt.Errorf("ask the leader of %s: %w", e, err)
	}
	if reason := msg.Header.Get("Nats-Service-Error"); reason != "" {
		return answer, cli.Exit(exitRefused, fmt.Errorf("the leader of %s refuses: %s", e, reason))
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of the leader of %s: %w", e, err)
	}
	return answer, nil
}

// errFound ends the wait.
var errFound = errors.New("found")

// awaitLeader follows the log until it tells of a leader after the epoch.
func awaitLeader(ctx context.Context, log *events.Log, e events.Election, after uint64) (events.Event, error) {
	var next events.Event
	err := log.Follow(ctx, events.FollowOptions{Filter: e}, func(entry events.Entry) error {
		if entry.Err == nil && entry.Event.Transition == events.NewLeader && entry.Event.Epoch > after {
			next = entry.Event
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return next, nil
	}
	return next, err
}
