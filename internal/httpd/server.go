package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"
)

// A probe or scrape takes milliseconds; these bounds only keep broken clients
// from holding connections.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = time.Second
)

// Options configure a server.
type Options struct {
	// Addr is where to listen, as host:port. Port 0 takes a free one, which
	// [Server.Addr] tells.
	Addr string
	// Metrics answers /metrics; nil leaves the path out.
	Metrics http.Handler
	// Profiling adds Go's profiles at /debug/pprof/. They tell a lot about the
	// process and can slow it down: only for an address that few can reach.
	Profiling bool
	// Logger takes what goes wrong with connections; nil for nobody.
	Logger *slog.Logger
}

// Server is the HTTP server. Its methods may be called from several
// goroutines at once.
type Server struct {
	listener net.Listener
	http     *http.Server
	source   atomic.Pointer[Source]
}

// Listen opens the port. Requests wait, and are answered once Run is called.
func Listen(ctx context.Context, o Options) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("open the HTTP port (--http-addr): %w", err)
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{listener: listener}
	s.http = &http.Server{
		Handler:           s.routes(o),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Addr is where the server listens, with the real port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Use makes src the source of all further answers. Before the first call the
// process counts as alive and not ready.
func (s *Server) Use(src Source) { s.source.Store(&src) }

// Run serves until ctx ends, lets running requests finish for at most a
// second, and closes the port. It returns nil then. It must be called once, or
// Close instead.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(bounded); err != nil {
		_ = s.http.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", s.Addr(), err)
	}
	return nil
}

// Close closes the port of a server that was never run.
func (s *Server) Close() error { return s.listener.Close() }

func (s *Server) routes(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("GET /{$}", s.leader)
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	if o.Profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}
