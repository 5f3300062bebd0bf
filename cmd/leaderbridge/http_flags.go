package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderbridge/leaderbridge/internal/httpd"
)

// httpFlags say where health and metrics are served.
type httpFlags struct{ addr string }

func (f *httpFlags) add(flags *pflag.FlagSet) { f.addAt(flags, ":8080") }

// addAt has an address of its own as the default.
func (f *httpFlags) addAt(flags *pflag.FlagSet, addr string) {
	flags.StringVar(&f.addr, "http-addr", addr, "`address` for /healthz, /readyz, /metrics, /status and the leader's name; empty for none")
}

// serve opens the HTTP port and answers until the returned function is called.
// Without an address there is no server.
func (f *httpFlags) serve(ctx context.Context, metrics http.Handler, log *slog.Logger) (*httpd.Server, func() error, error) {
	if f.addr == "" {
		return nil, func() error { return nil }, nil
	}
	server, err := httpd.Listen(ctx, httpd.Options{Addr: f.addr, Metrics: metrics, Logger: log})
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
