package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/bridge"
	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/kubeconn"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/natskv"
	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// The kinds of locks.
const (
	lockLease = "lease"
	lockNATS  = "nats"
)

// runCommand is "leaderbridge run".
type runCommand struct {
	*common
	logFlags
	kube     kubeconn.Options
	lockKind string
	bucket   string
	options  election.Options
	election events.Election
	http     httpFlags
	health   healthFlags
}

func newRun(c *common) *cobra.Command {
	r := &runCommand{common: c}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Stand for election and publish every change",
		Long: `Stand for election on a Kubernetes Lease, and publish every change as a
CloudEvent on NATS JetStream: who leads, who ceased to, and why.

In a pod it needs only the Lease's name and the address of NATS. It keeps
trying while the API server or NATS is away; elections go on without NATS, and
what happens meanwhile is published afterwards.

On SIGTERM a leader records the end of its term, releases the Lease and exits
with 0. A second signal exits at once.`,
		Example: `  leaderbridge run --lease-lock-name scheduler --nats-url nats://nats:4222
  leaderbridge run --lease-lock-name scheduler --lease-lock-namespace prod \
      --kubeconfig ~/.kube/config --lease-duration 6s --renew-deadline 4s --retry-period 1s
  leaderbridge run --lock nats --lease-lock-name scheduler
  LEADERBRIDGE_LEASE_LOCK_NAME=scheduler leaderbridge run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	r.flags(cmd.Flags())
	return cmd
}

func (r *runCommand) flags(flags *pflag.FlagSet) {
	cli.ChoiceVarP(flags, &r.lockKind, "lock", "", lockLease, "what to stand on: a Kubernetes Lease, or a key in a NATS bucket for sites without Kubernetes", lockLease, lockNATS)
	flags.StringVar(&r.bucket, "lock-bucket", natskv.DefaultBucket, "`name` of the key-value bucket of --lock nats; created when absent")
	flags.StringVar(&r.election.Lease, "lease-lock-name", "", "`name` of the Lease or key (required)")
	flags.StringVar(&r.election.Namespace, "lease-lock-namespace", "", "`namespace` of the Lease; default: the pod's own, or that of the kubeconfig's context; with --lock nats: default")
	flags.StringVar(&r.election.Cluster, "cluster", "default", "`name` of this cluster in events and subjects")
	flags.StringVar(&r.options.Identity, "id", "", "`identity` of this candidate; it must differ from all others (default: the host's name and a unique suffix)")
	flags.DurationVar(&r.options.LeaseDuration, "lease-duration", election.DefaultLeaseDuration, "how long a crashed leader's Lease keeps others away; whole seconds")
	flags.DurationVar(&r.options.RenewDeadline, "renew-deadline", election.DefaultRenewDeadline, "how long a leader goes on without a successful renewal")
	flags.DurationVar(&r.options.RetryPeriod, "retry-period", election.DefaultRetryPeriod, "time between renewals, and between tries")
	flags.DurationVar(&r.options.RequestTimeout, "request-timeout", 0, "how long one request to the API server may take (default: half the renew deadline, at least 1s)")
	r.http.add(flags)
	r.health.add(flags)
	r.kube.AddFlags(flags)
	r.add(flags)
}

// check finds everything that is wrong with the input.
func (r *runCommand) check() error {
	if r.election.Lease == "" {
		return errors.New("--lease-lock-name is missing: name the Lease to stand for")
	}
	if r.election.Namespace == "" {
		r.election.Namespace = r.namespace()
	}
	if r.election.Namespace == "" {
		return errors.New("--lease-lock-namespace is missing: outside a pod nothing tells the namespace")
	}
	if err := r.election.Validate(); err != nil {
		return err
	}
	if r.options.Identity == "" {
		id, err := election.DefaultIdentity()
		if err != nil {
			return err
		}
		r.options.Identity = id
	}
	var err error
	if r.options.Health, err = r.health.health(); err != nil {
		return err
	}
	if err := r.options.Default().Validate(); err != nil {
		return err
	}
	if err := r.logFlags.check(); err != nil {
		return err
	}
	if r.lockKind == lockLease {
		// Before NATS is tried, whose absence would be said first.
		_, err = r.kube.Config()
	}
	return err
}

func (r *runCommand) namespace() string {
	if r.lockKind == lockNATS {
		return "default"
	}
	return r.kube.Namespace()
}

func (r *runCommand) run(ctx context.Context) (err error) {
	if err := r.check(); err != nil {
		return cli.Usage(err)
	}
	// What is closed last is opened first: health answers from the first
	// moment to the last.
	measured, err := telemetry.Setup(ctx, telemetry.Options{Version: buildinfo.Version(), Instance: r.options.Identity, Logger: r.log})
	if err != nil {
		return cli.Usage(err)
	}
	// The last of what happened is exported when all of it has happened.
	defer flush(ctx, measured, r.log)
	server, stopServer, err := r.http.serve(ctx, measured.Handler, r.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()

	conn, err := r.connect(ctx, r.log)
	if err != nil {
		return err
	}
	defer conn.Close()

	lock, err := r.lock(conn)
	if err != nil {
		return cli.Usage(err)
	}
	book := logbook.New(conn.Conn, r.at(conn), conn.Explain)
	b, err := bridge.New(lock, conn.Conn, book, bridge.Config{
		Election: r.election, Options: r.options, Prefix: r.logFlags.events.Prefix, Logger: r.log,
		Metrics: measured.Metrics, Tracers: measured.Tracers,
	})
	if err != nil {
		return cli.Usage(err)
	}
	if server != nil {
		server.Use(b)
	}
	r.log.Info("standing for election", "lock", lock.String(), "identity", r.options.Identity)
	return untilClosed(ctx, conn, b.Run)
}

func (r *runCommand) lock(conn *natsconn.Conn) (election.Lock, error) {
	if r.lockKind == lockNATS {
		js, err := conn.JetStream()
		if err != nil {
			return nil, err
		}
		return natskv.New(js, natskv.Options{
			Namespace: r.election.Namespace, Name: r.election.Lease, Bucket: r.bucket,
			Replicas: r.logFlags.events.Replicas, Logger: r.log,
		})
	}
	cfg, err := r.kube.Config()
	if err != nil {
		return nil, err
	}
	client, err := election.NewLeaseClient(cfg)
	if err != nil {
		return nil, err
	}
	return election.NewLeaseLock(client, r.election.Namespace, r.election.Lease,
		election.WithLeaseLabels(map[string]string{"app.kubernetes.io/managed-by": "leaderbridge"}))
}
