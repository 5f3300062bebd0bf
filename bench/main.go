package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// benchmark is one file's measurement.
type benchmark struct {
	name string
	run  func(*site) []row
}

// In this order. What fills the API server with thousands of Leases is last.
var benchmarks = []benchmark{
	{"hand-over", handOver},
	{"append", appendAlone},
	{"crash", crash},
	{"standby", standby},
	{"worker", workers},
	{"burst", burst},
	{"growth", growth},
	{"start", startup},
	{"many", many},
	{"watch", watching},
}

func main() {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go's candidates are talkative
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	only, out, doc, note string
	short                bool
}

func (o *options) flags(f *flag.FlagSet) {
	f.StringVar(&o.only, "only", "", "run only these benchmarks, separated by commas")
	f.BoolVar(&o.short, "short", false, "take fewer samples, for three minutes in all")
	f.StringVar(&o.out, "out", "bench/results.json", "write the rows to this file")
	f.StringVar(&o.doc, "doc", "docs/performance.md", "put the table of a full run into this file, between its markers; empty for none")
	f.StringVar(&o.note, "note", "", "say this about the machine, above the table")
}

// selected returns the benchmarks to run.
func (o *options) selected() ([]benchmark, error) {
	if o.only == "" {
		return benchmarks, nil
	}
	var chosen []benchmark
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			var names []string
			for _, b := range benchmarks {
				names = append(names, b.name)
			}
			return nil, fmt.Errorf("there is no benchmark %q: there are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, benchmarks[i])
	}
	return chosen, nil
}

func run(ctx context.Context, o options) error {
	chosen, err := o.selected()
	if err != nil {
		return err
	}
	began := time.Now()
	report := newReport(o, began)
	h := newHost(ctx, "bench")
	defer h.clean()
	s := &site{host: h, short: o.short}
	var errs []error
	for _, b := range chosen {
		rows, err := measure(s, b)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
			fmt.Fprintf(os.Stderr, "%s failed: %v\n", b.name, err)
		}
		report.Rows = append(report.Rows, rows...)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	report.Took = time.Since(began).Round(time.Second).String()
	if err := write(o, report); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// measure runs one benchmark with whatever it starts, and cleans up after it.
func measure(s *site, b benchmark) (rows []row, err error) {
	sub := s.sub(b.name)
	defer sub.clean()
	defer sub.recover(&err)
	began := time.Now()
	sub.progress("begins")
	rows = b.run(sub)
	for _, r := range rows {
		sub.progress("%s", r)
	}
	sub.progress("took %s", time.Since(began).Round(100*time.Millisecond))
	return rows, nil
}

// write stores the report and shows it.
func write(o options, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(o.out, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	fmt.Println(r.table())
	if o.doc == "" || o.short || o.only != "" {
		return nil
	}
	return r.putInto(o.doc)
}
