package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/healthcheck"
	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// healthFlags say when a candidate may stand.
type healthFlags struct {
	url, command    string
	period, timeout time.Duration
	threshold       int
}

func (f *healthFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "health-url", "", "stand only while a GET of this `URL` is answered with 2xx")
	flags.StringVar(&f.command, "health-command", "", "stand only while this shell `command` exits with 0")
	flags.DurationVar(&f.period, "health-period", election.DefaultHealthPeriod, "time between health checks")
	flags.DurationVar(&f.timeout, "health-timeout", election.DefaultHealthTimeout, "how long a health check may take")
	flags.IntVar(&f.threshold, "health-threshold", election.DefaultHealthThreshold, "failed checks in a row after which a leader steps down")
}

// health returns nil when no check was asked for.
func (f *healthFlags) health() (*election.Health, error) {
	h := &election.Health{Period: f.period, Timeout: f.timeout, Threshold: f.threshold}
	switch {
	case f.url == "" && f.command == "":
		return nil, nil
	case f.url != "" && f.command != "":
		return nil, errors.New("--health-url and --health-command exclude each other: give one")
	case f.period <= 0 || f.timeout <= 0 || f.threshold <= 0:
		return nil, errors.New("--health-period, --health-timeout and --health-threshold must be above zero")
	case f.command != "":
		h.Check = healthcheck.Command(f.command)
		return h, nil
	}
	var err error
	h.Check, err = healthcheck.URL(f.url)
	return h, err
}
