package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/internal/cli"
	"github.com/leaderbridge/leaderbridge/internal/demo"
	"github.com/leaderbridge/leaderbridge/internal/kubeconn"
	"github.com/leaderbridge/leaderbridge/internal/natsconn"
	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// demoCommand is "leaderbridge demo".
type demoCommand struct {
	*common
	options demo.Options
	nats    natsconn.Options
	kube    kubeconn.Options
	output  string
}

func newDemo(c *common) *cobra.Command {
	d := &demoCommand{common: c}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show elections, crashes and hand-overs on this machine",
		Long: `Show everything on one machine with nothing installed: a NATS server in this
process, three candidates as processes of their own, two workers that compete
for one role, and a subscriber. One leader after the other is asked to step
down, stopped and killed. The timeline shows each event as it arrives and who
works, and the summary how long the hand-overs took.

With --kubeconfig the candidates stand on a Lease of a real cluster, which is
deleted at the end; with --nats-url the events go through an existing NATS,
where they stay in the log as elections of the cluster "demo".`,
		Example: `  leaderbridge demo
  leaderbridge demo --rounds 6
  leaderbridge demo --rounds 6 --output json | jq -r '.type + " " + .subject'
  leaderbridge demo --kubeconfig ~/.kube/config --namespace sandbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.options.NATSEnv = natsEnv(cmd.Flags(), d.nats.URLs)
			return d.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	d.flags(cmd.Flags())
	return cmd
}

func (d *demoCommand) flags(flags *pflag.FlagSet) {
	flags.IntVar(&d.options.Rounds, "rounds", 0, "end after this `number` of hand-overs; 0 goes on until Ctrl-C")
	flags.DurationVar(&d.options.Pause, "pause", time.Second, "time between two hand-overs")
	cli.ChoiceVarP(flags, &d.output, "output", "o", "timeline", "what to print: a timeline for people, or each CloudEvent as one line of JSON", "timeline", "json")
	flags.StringVar(&d.options.Dir, "dir", "", "`directory` for the NATS server's files and the candidates' logs, which stays; default: a temporary one")
	flags.StringVar(&d.options.Namespace, "namespace", "default", "`namespace` of the election")
	flags.StringVar(&d.options.Lease, "name", "leaderbridge-demo", "`name` of the election")
	d.kube.AddFlags(flags)
	d.nats.AddFlags(flags)
}

// natsEnv returns the flags of the NATS connection as variables: arguments could
// be seen in the list of processes, and some are secrets.
func natsEnv(flags *pflag.FlagSet, urls []string) []string {
	var env []string
	flags.Visit(func(f *pflag.Flag) {
		if !strings.HasPrefix(f.Name, "nats-") && !strings.HasPrefix(f.Name, "js-") {
			return
		}
		value := f.Value.String()
		if f.Name == "nats-url" {
			value = strings.Join(urls, ",")
		}
		env = append(env, "LEADERBRIDGE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))+"="+value)
	})
	return env
}

func (d *demoCommand) run(ctx context.Context, out io.Writer) error {
	if d.options.Rounds < 0 || d.options.Pause < 0 {
		return cli.Usagef("--rounds and --pause must not be negative")
	}
	if err := d.nats.Validate(); err != nil {
		return cli.Usage(err)
	}
	d.options.JSON = d.output == "json"
	d.options.Out, d.options.Logger = out, d.log
	d.options.NATS = d.nats
	d.options.LockArgs = []string{"--lock", lockNATS}
	if d.kube.Kubeconfig == "" && d.kube.Context == "" {
		return demo.Run(ctx, d.options)
	}
	d.options.LockArgs = []string{"--lock", lockLease, "--kubeconfig", d.kube.Kubeconfig, "--kube-context", d.kube.Context}
	cfg, err := d.kube.Config()
	if err != nil {
		return cli.Usage(err)
	}
	client, err := election.NewLeaseClient(cfg)
	if err != nil {
		return cli.Usage(err)
	}
	err = demo.Run(ctx, d.options)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if gone := client.Leases(d.options.Namespace).Delete(cleanup, d.options.Lease, metav1.DeleteOptions{}); gone != nil && err == nil {
		err = fmt.Errorf("delete the demo's Lease: %w", gone)
	}
	return err
}
