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

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/httpd"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/internal/telemetry/instruments"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
)

// workerCommand is "leaderbridge worker".
type workerCommand struct {
	*common
	logFlags
	election string
	cluster  string
	restart  string
	options  worker.Options
	command  commandFlags
	module   moduleFlags
	event    eventFlags
	http     httpFlags
	relation string
}

// How spans stand to the trace of a failover.
const (
	traceChild = "child"
	traceLink  = "link"
)

// commandFlags are about commands, and mean nothing to a module.
type commandFlags struct {
	grace  time.Duration
	prefix string
}

var commandOnly = []string{"grace", "output-prefix"}

func newWorker(c *common) *cobra.Command {
	w := &workerCommand{common: c}
	cmd := &cobra.Command{
		Use:   "worker --election NAMESPACE/NAME --role ROLE [flags] [--] COMMAND|ARG...",
		Short: "Run something in one place, while leadership lasts",
		Long: `Run a command, or with --wasm a WebAssembly module, while this worker holds the
grant of a role: a time-bounded right that the election's leader gives over NATS
to one worker at a time. It needs no access to Kubernetes.

What runs learns of its term by LEADERBRIDGE_EPOCH, _LEADER, _ROLE, _IDENTITY,
_ELECTION, _CLUSTER, _NAMESPACE and _LEASE. When the grant ends a command gets
SIGTERM, and SIGKILL for its whole process tree while the grant still lasts; a
guard process sees to that even if this one is stopped or killed. A module is
stopped in the middle of whatever it does. It has no files, no network and no
environment but what --mount and --env give it.

With --on event there is a short run for each event of the election, with the
CloudEvent on standard input. Each line of its standard output that is a
CloudEvent is published on the subject of --publish, when the run has ended with
code 0. The first worker of a role begins with the last event; each one after it
goes on where its predecessor was. No event is left out. One is handled again if
its worker was stopped at a bad moment: derive the ids of what you publish from
the id of the event. A run that fails is made again, and those behind it wait.

Exit codes: 0 after a clean stop, and when the work is done; the command's or
module's own code, or 128 plus the signal that ended it, when it is not started
again; 126 if a command cannot be executed, 127 if it does not exist; 2 for bad
input; 1 for anything else.`,
		Example: `  leaderbridge worker --election prod/scheduler --role reports -- ./make-reports --loop
  leaderbridge worker --election eu/prod/scheduler --role sync --restart never -- rsync -a from/ to
  leaderbridge worker --election prod/scheduler --role heart --wasm heartbeat.wasm -- --verbose
  leaderbridge worker --election prod/scheduler --role tenants --on event --publish tenants.desired \
      --wasm tenants.wasm --mount /etc/tenants:/tenants --env REGION=eu --memory 64Mi
  leaderbridge worker --election prod/scheduler --role pager --on event -- ./page-somebody
  leaderbridge worker --election kube-system/kube-scheduler --follow-holder node1_7d.. -- ./sidecar`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(args, cmd.Flags()); err != nil {
				return cli.Usage(err)
			}
			return w.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	w.flags(cmd.Flags())
	w.module.complete(cmd)
	for _, name := range []string{"election", "cluster", "role", "id", "follow-holder", "publish", "positions-bucket", "env", "memory"} {
		// It fails only for a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (w *workerCommand) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&w.election, "election", "e", "", "`election` whose leader gives the grant: [CLUSTER/]NAMESPACE/NAME (required)")
	flags.StringVar(&w.cluster, "cluster", "default", "`name` of the election's cluster, where --election names none")
	flags.StringVar(&w.options.Role, "role", "", "`name` of what the worker does, a DNS label; each role of an election has one worker at a time (required)")
	flags.StringVar(&w.options.Identity, "id", "", "`identity` of this worker for people (default: the host's name and a unique suffix)")
	flags.StringVar(&w.options.Follow, "follow-holder", "", "instead of asking for grants, run while the log says that this `identity` leads: for elections of other software that \"leaderbridge watch\" reports. Weaker: the work may outlast the leadership")
	cli.ChoiceVarP(flags, &w.restart, "restart", "", restartOnFailure, "when a command or module that has ended is started again: on-failure, always or never; otherwise the worker ends with it",
		restartOnFailure, restartAlways, restartNever)
	r := &w.options.Restart
	flags.DurationVar(&r.First, "restart-pause", time.Second, "pause after the first failure; each further one doubles it, up to 30s")
	flags.IntVar(&r.Failures, "max-failures", 5, "failures in a row after which the grant is given back")
	flags.DurationVar(&r.CoolDown, "cool-down", time.Minute, "how long the role is then left to other workers")
	flags.DurationVar(&w.command.grace, "grace", 10*time.Second, "how long a command may take to end after SIGTERM; when a grant lapses at most a third of it")
	flags.StringVar(&w.command.prefix, "output-prefix", "", "`text` before each line that a command writes; empty passes its output through untouched")
	w.event.add(flags)
	w.module.add(flags)
	// There may be many workers on a machine or in a pod: none of them has a port
	// unless it is given one.
	w.http.addAt(flags, "")
	cli.ChoiceVarP(flags, &w.relation, "trace-relation", "", traceChild, "how this worker's spans stand to the trace of a failover: child, a part of it; or link, in traces of their own that link to it, for very many workers", traceChild, traceLink)
	w.nats.AddFlags(flags)
	flags.StringVar(&w.logFlags.events.Stream, "stream", events.DefaultStream, "`name` of the log's stream")
	flags.StringVar(&w.logFlags.events.Prefix, "prefix", events.DefaultPrefix, "first `tokens` of every subject")
}

// check finds what is wrong with the input.
func (w *workerCommand) check(args []string, flags *pflag.FlagSet) error {
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
	case len(args) == 0 && w.module.file == "":
		return errors.New("there is nothing to run: name a command after --, or a module with --wasm")
	}
	if w.options.Role != "" {
		if err := events.ValidateRole(w.options.Role); err != nil {
			return fmt.Errorf("--role: %w", err)
		}
	}
	if err := w.checkUse(flags); err != nil {
		return err
	}
	r := w.options.Restart
	if r.First <= 0 || r.Failures <= 0 || r.CoolDown <= 0 {
		return fmt.Errorf("--restart-pause %s, --max-failures %d and --cool-down %s must be above zero", r.First, r.Failures, r.CoolDown)
	}
	if w.command.grace <= 0 {
		return fmt.Errorf("--grace %s must be above zero", w.command.grace)
	}
	if err := w.module.check(); err != nil {
		return err
	}
	if err := w.nats.Validate(); err != nil {
		return err
	}
	if err := events.ValidatePrefix(w.logFlags.events.Prefix); err != nil {
		return err
	}
	return w.event.check(w.logFlags.events.Prefix)
}

// checkUse refuses flags that would have no effect.
func (w *workerCommand) checkUse(flags *pflag.FlagSet) error {
	for _, rule := range []struct {
		useless bool
		names   []string
		why     string
	}{
		{w.module.file == "", moduleOnly, "is for modules: it needs --wasm"},
		{w.module.file != "", commandOnly, "is for commands, not for modules"},
		{w.event.on != onEvent, eventOnly, "needs --on event"},
		{w.event.on == onEvent, termOnly, "is not for --on event: a run that fails is made again, one that does not is over"},
	} {
		for _, name := range rule.names {
			if rule.useless && flags.Changed(name) {
				return fmt.Errorf("--%s %s", name, rule.why)
			}
		}
	}
	return nil
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

func (w *workerCommand) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.options.Identity == "" {
		if w.options.Identity, err = worker.DefaultIdentity(); err != nil {
			return err
		}
	}
	// What is closed last is opened first: health answers from the first moment,
	// also while a module is compiled.
	measured, err := telemetry.Setup(ctx, telemetry.Options{Version: buildinfo.Version(), Instance: w.options.Identity, Logger: w.log})
	if err != nil {
		return cli.Usage(err)
	}
	defer flush(ctx, measured, w.log)
	server, stopServer, err := w.http.serve(ctx, measured.Handler, w.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()
	work, err := w.newTask(ctx, cancel, args, stdin, stdout, stderr)
	if err != nil {
		return err
	}
	defer work.close()
	conn, err := w.connect(ctx, w.log)
	if err != nil {
		return err
	}
	defer conn.Close()
	return w.work(ctx, conn, work, stdout, measured, server)
}

// newTask prepares what is to run. cancel is called for a signal that ends it.
func (w *workerCommand) newTask(ctx context.Context, cancel context.CancelFunc, args []string, stdin io.Reader, stdout, stderr io.Writer) (task, error) {
	if w.module.file != "" {
		return w.newModule(ctx, args, stdout, stderr)
	}
	return w.newCommand(ctx, cancel, args, stdin, stdout, stderr)
}

// work runs the task whenever there is a grant.
func (w *workerCommand) work(ctx context.Context, conn *natsconn.Conn, t task, stdout io.Writer, measured *telemetry.Telemetry, server *httpd.Server) error {
	o := w.options
	o.Logger, o.Log = w.log, w.at(conn)
	o.Tracers, o.TraceLinks = measured.Tracers, w.relation == traceLink

	var metrics *instruments.Worker
	t = &counted{t, func() *instruments.Worker { return metrics }}
	j := &job{task: t, restart: w.restart, log: w.log}
	o.Handler = j.handle
	if w.event.on == onEvent {
		var err error
		if o.Handler, err = w.event.handler(conn, o, t, stdout); err != nil {
			return cli.Usage(err)
		}
	}
	run, err := worker.New(conn.Conn, o)
	if err != nil {
		return cli.Usage(err)
	}
	metrics = measured.Metrics.Working(o.Election, run.Role(), func() bool { return run.Snapshot().Holds })
	defer metrics.Close()
	if server != nil {
		server.Use(&workerStatus{run, conn, o.Election, run.Role()})
	}
	w.log.Info("waiting for the grant", "election", o.Election.String(), "role", run.Role(), "worker", run.Identity())
	err = untilClosed(ctx, conn, run.Run)
	if w.event.on == onEvent {
		return err
	}
	return j.exit(err)
}
