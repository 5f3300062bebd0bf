package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/buildinfo"
	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/kubeconn"
	"github.com/leaderbridge/leaderbridge/internal/logbook"
	"github.com/leaderbridge/leaderbridge/internal/telemetry"
	"github.com/leaderbridge/leaderbridge/internal/watcher"
	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// watchCommand is "leaderbridge watch".
type watchCommand struct {
	*common
	logFlags
	kube   kubeconn.Options
	config watcher.Config
	http   httpFlags
}

func newWatch(c *common) *cobra.Command {
	w := &watchCommand{common: c}
	cmd := &cobra.Command{
		Use:   "watch [namespace/name]...",
		Short: "Publish the transitions of Leases that others hold",
		Long: `Publish the transitions of Leases that other software holds: kube-scheduler,
controllers in any language, kubelets. It only reads Leases (get, list, watch),
and a holder who lets its Lease run out is reported, too.

Several watchers of the same Leases are redundant: each transition is published
once.`,
		Example: `  leaderbridge watch kube-system/kube-scheduler kube-system/kube-controller-manager
  leaderbridge watch --namespace prod --namespace staging
  leaderbridge watch --all-namespaces --exclude 'kube-node-lease/*'
  leaderbridge watch --all-namespaces --selector app.kubernetes.io/part-of=shop`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.config.Selection.Leases = args
			return w.run(cmd.Context())
		},
	}
	w.flags(cmd.Flags())
	return cmd
}

func (w *watchCommand) flags(flags *pflag.FlagSet) {
	s := &w.config.Selection
	flags.StringSliceVarP(&s.Namespaces, "namespace", "n", nil, "`namespaces` to watch whole; may be repeated")
	flags.BoolVarP(&s.All, "all-namespaces", "A", false, "watch every namespace")
	flags.StringVarP(&s.Selector, "selector", "l", "", "label `selector` that Leases must match")
	flags.StringSliceVar(&s.Include, "include", nil, "watch only Leases whose namespace/name matches one of these `patterns` (* is any text without /)")
	flags.StringSliceVar(&s.Exclude, "exclude", nil, "leave out Leases whose namespace/name matches one of these `patterns`")
	flags.StringVar(&w.config.Cluster, "cluster", "default", "`name` of this cluster in events and subjects")
	flags.StringVar(&w.config.Identity, "id", "", "`identity` of this watcher in events (default: the host's name and a unique suffix)")
	flags.DurationVar(&w.config.Delay, "report-delay", election.DefaultRetryPeriod/4, "how long a change is left to another watcher to report, on average")
	w.http.add(flags)
	w.kube.AddFlags(flags)
	w.add(flags)
}

func (w *watchCommand) check() error {
	if err := w.config.Selection.Validate(); err != nil {
		return err
	}
	if w.config.Delay < 0 {
		return fmt.Errorf("--report-delay %s must not be negative", w.config.Delay)
	}
	if w.config.Identity == "" {
		id, err := election.DefaultIdentity()
		if err != nil {
			return err
		}
		w.config.Identity = id
	}
	return w.logFlags.check()
}

func (w *watchCommand) run(ctx context.Context) (err error) {
	if err := w.check(); err != nil {
		return cli.Usage(err)
	}
	cfg, err := w.kube.Config()
	if err != nil {
		return cli.Usage(err)
	}
	client, err := election.NewLeaseClient(cfg)
	if err != nil {
		return cli.Usage(err)
	}
	measured, err := telemetry.Setup(ctx, telemetry.Options{Version: buildinfo.Version(), Instance: w.config.Identity, Logger: w.log})
	if err != nil {
		return cli.Usage(err)
	}
	defer flush(ctx, measured, w.log)
	server, stopServer, err := w.http.serve(ctx, measured.Handler, w.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()
	conn, err := w.connect(ctx, w.log)
	if err != nil {
		return err
	}
	defer conn.Close()
	w.config.Logger, w.config.Metrics = w.log, measured.Metrics
	watch, err := watcher.New(client, logbook.New(conn.Conn, w.at(conn), conn.Explain), w.config)
	if err != nil {
		return cli.Usage(err)
	}
	if server != nil {
		server.Use(watch)
	}
	return untilClosed(ctx, conn, watch.Run)
}
