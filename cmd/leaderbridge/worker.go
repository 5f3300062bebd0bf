package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// workerCommand is "leaderbridge worker".
type workerCommand struct {
	*common
	logFlags
	election string
	cluster  string
	options  worker.Options
	command  commandWork
}

func newWorker(c *common) *cobra.Command {
	w := &workerCommand{common: c}
	cmd := &cobra.Command{
		Use:   "worker --election NAMESPACE/NAME --role ROLE [flags] -- COMMAND [ARG...]",
		Short: "Run something in one place, while leadership lasts",
		Long: `Run a command while this worker holds the grant of a role: a time-bounded right
that the election's leader gives over NATS to one worker at a time. It needs no
access to Kubernetes.

The command learns of its term by LEADERBRIDGE_EPOCH, _LEADER, _ROLE, _IDENTITY,
_ELECTION, _CLUSTER, _NAMESPACE and _LEASE. When the grant ends it gets SIGTERM,
and SIGKILL for its whole process tree while the grant still lasts; a guard
process sees to that even if this one is stopped or killed.

Exit codes: 0 after a clean stop, and when the command is done; the command's
own code, or 128 plus the signal that ended it, when it is not started again;
126 if it cannot be executed, 127 if it does not exist; 2 for bad input; 1 for
anything else.`,
		Example: `  leaderbridge worker --election prod/scheduler --role reports -- ./make-reports --loop
  leaderbridge worker --election eu/prod/scheduler --role sync --restart never -- rsync -a from/ to
  leaderbridge worker --election kube-system/kube-scheduler --follow-holder node1_7d.. -- ./sidecar`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	w.flags(cmd.Flags())
	return cmd
}

func (w *workerCommand) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&w.election, "election", "e", "", "`election` whose leader gives the grant: [CLUSTER/]NAMESPACE/NAME (required)")
	flags.StringVar(&w.cluster, "cluster", "default", "`name` of the election's cluster, where --election names none")
	flags.StringVar(&w.options.Role, "role", "", "`name` of what the worker does, a DNS label; each role of an election has one worker at a time (required)")
	flags.StringVar(&w.options.Identity, "id", "", "`identity` of this worker for people (default: the host's name and a unique suffix)")
	flags.StringVar(&w.options.Follow, "follow-holder", "", "instead of asking for grants, run while the log says that this `identity` leads: for elections of other software that \"leaderbridge watch\" reports. Weaker: the work may outlast the leadership")
	w.command.add(flags)
	r := &w.options.Restart
	flags.DurationVar(&r.First, "restart-pause", time.Second, "pause after the first failure; each further one doubles it, up to 30s")
	flags.IntVar(&r.Failures, "max-failures", 5, "failures in a row after which the grant is given back")
	flags.DurationVar(&r.CoolDown, "cool-down", time.Minute, "how long the role is then left to other workers")
	w.nats.AddFlags(flags)
	flags.StringVar(&w.logFlags.events.Stream, "stream", events.DefaultStream, "`name` of the log's stream")
	flags.StringVar(&w.logFlags.events.Prefix, "prefix", events.DefaultPrefix, "first `tokens` of every subject")
}

// check finds everything that is wrong with the input.
func (w *workerCommand) check(args []string) error {
	if w.election == "" {
		return errors.New("--election is missing: name the election whose leader gives the grant")
	}
	var err error
	if w.options.Election, err = exactElection(w.election, w.cluster); err != nil {
		return fmt.Errorf("--election: %w", err)
	}
	switch {
	case w.options.Role == "" && w.options.Follow == "":
		return errors.New("--role is missing: name what the worker does")
	case len(args) == 0:
		return errors.New("there is no command to run: name it after --")
	}
	if w.options.Role != "" {
		if err := events.ValidateRole(w.options.Role); err != nil {
			return fmt.Errorf("--role: %w", err)
		}
	}
	r := w.options.Restart
	if r.First <= 0 || r.Failures <= 0 || r.CoolDown <= 0 {
		return fmt.Errorf("--restart-pause %s, --max-failures %d and --cool-down %s must be above zero", r.First, r.Failures, r.CoolDown)
	}
	if err := w.command.check(); err != nil {
		return err
	}
	if err := w.nats.Validate(); err != nil {
		return err
	}
	return events.ValidatePrefix(w.logFlags.events.Prefix)
}

// exactElection reads NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, without a *.
func exactElection(s, cluster string) (events.Election, error) {
	e, err := parseElection(s)
	if err != nil {
		return e, err
	}
	if e.Namespace == "" || e.Lease == "" || strings.HasPrefix(s, "*") {
		return e, fmt.Errorf("election %q: name one election, without *", s)
	}
	if e.Cluster == "" {
		e.Cluster = cluster
	}
	return e, e.Validate()
}

func (w *workerCommand) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := w.check(args); err != nil {
		return cli.Usage(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work, err := w.command.prepare(ctx, cancel, args, stdin, stdout, stderr)
	if err != nil {
		return err
	}
	defer work.close()
	conn, err := w.connect(ctx, w.log)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = w.work(ctx, conn, work.handle)
	return work.exit(err)
}

func (w *workerCommand) work(ctx context.Context, conn *natsconn.Conn, h worker.Handler) error {
	o := w.options
	o.Handler, o.Logger, o.Log = h, w.log, w.at(conn)
	run, err := worker.New(conn.Conn, o)
	if err != nil {
		return cli.Usage(err)
	}
	w.log.Info("waiting for the grant", "election", o.Election.String(), "role", o.Role, "worker", run.Identity())
	return untilClosed(ctx, conn, run.Run)
}
