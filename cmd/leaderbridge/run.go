package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/bridge"
	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/httpd"
	"github.com/leaderbridge/leaderbridge/internal/kubeconn"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
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
	httpAddr string
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
	flags.StringVar(&r.httpAddr, "http-addr", ":8080", "`address` for /healthz, /readyz, /metrics, /status and the leader's name; empty for none")
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
	return r.logFlags.check()
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
	server, stopServer, err := r.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()

	conn, err := natsconn.Connect(ctx, r.nats, r.log)
	if bad := new(natsconn.InputError); errors.As(err, &bad) {
		return cli.Usage(err)
	} else if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()

	lock, err := r.lock(conn)
	if err != nil {
		return cli.Usage(err)
	}
	book := logbook.New(conn.Conn, r.at(conn), conn.Explain)
	b, err := bridge.New(lock, conn.Conn, book, bridge.Config{
		Election: r.election, Options: r.options, Prefix: r.logFlags.events.Prefix, Logger: r.log,
	})
	if err != nil {
		return cli.Usage(err)
	}
	if server != nil {
		server.Use(b)
	}
	r.log.Info("standing for election", "lock", lock.String(), "identity", r.options.Identity)
	return r.standUntilClosed(ctx, b, conn)
}

// standUntilClosed runs the bridge, and stops it cleanly when the NATS client
// has given up for good: a process that cannot publish any more must not look
// healthy.
func (r *runCommand) standUntilClosed(ctx context.Context, b *bridge.Bridge, conn *natsconn.Conn) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-conn.Done():
			stop()
		case <-ctx.Done():
		}
	}()
	err := b.Run(ctx)
	if gone := conn.Err(); gone != nil {
		err = errors.Join(err, fmt.Errorf("the NATS client has closed the connection: %w", gone))
	}
	return err
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

// serve opens the HTTP port and answers until the returned function is called.
func (r *runCommand) serve(ctx context.Context) (*httpd.Server, func() error, error) {
	if r.httpAddr == "" {
		return nil, func() error { return nil }, nil
	}
	server, err := httpd.Listen(ctx, httpd.Options{Addr: r.httpAddr, Logger: r.log})
	if err != nil {
		return nil, nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- server.Run(serving) }()
	return server, func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(2 * time.Second):
			return errors.New("the HTTP server did not stop in time")
		}
	}, nil
}
