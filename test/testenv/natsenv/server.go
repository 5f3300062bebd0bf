package natsenv

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// startTimeout bounds how long a server, or a cluster, may take until it
// serves and has caught up. It is generous: several test binaries share the
// machine, and a cluster whose servers are slow elects its leaders again.
const startTimeout = 3 * time.Minute

// Option changes the options of a server before it starts for the first time.
type Option func(*server.Options)

// Server is one NATS server. Its methods must be called from the goroutine
// that runs the test.
type Server struct {
	options *server.Options
	running *server.Server
	log     *log
}

// Start runs one server with JetStream until the test ends.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	s := newServer(tb, "single", options)
	s.start(tb)
	return s
}

// newServer prepares a server without starting it.
func newServer(tb testing.TB, name string, options []Option) *Server {
	tb.Helper()
	s := &Server{
		options: &server.Options{
			ServerName: name,
			Host:       "127.0.0.1",
			Port:       freePort(tb),
			JetStream:  true,
			// The folder must be older than the clean-up below, which runs
			// last in, first out: files go away after the server.
			StoreDir: filepath.Join(tb.TempDir(), name),
			NoSigs:   true,
			// The shortest lame duck mode that the server accepts.
			LameDuckGracePeriod: time.Second,
			LameDuckDuration:    2 * time.Second,
		},
		log: &log{},
	}
	for _, o := range options {
		o(s.options)
	}
	tb.Cleanup(func() {
		s.Stop()
		if tb.Failed() {
			tb.Logf("log of the NATS server %s:\n%s", name, s.log.text())
		}
	})
	return s
}

// launch starts the server and does not wait until it serves.
func (s *Server) launch(tb testing.TB) {
	tb.Helper()
	// The server fills in what it is missing, so each start gets a copy.
	running, err := server.NewServer(s.options.Clone())
	if err != nil {
		tb.Fatalf("configure the NATS server %s: %v", s.options.ServerName, err)
	}
	running.SetLoggerV2(s.log, s.options.Debug, s.options.Trace, false)
	s.running = running
	running.Start()
}

func (s *Server) start(tb testing.TB) {
	tb.Helper()
	s.launch(tb)
	if !s.running.ReadyForConnections(startTimeout) {
		tb.Fatalf("start the NATS server %s: not ready within %s", s.options.ServerName, startTimeout)
	}
}

// URL returns the address for clients. It stays the same across restarts.
func (s *Server) URL() string { return s.running.ClientURL() }

// Running reports whether the server is up. It is false after Stop and at the
// end of LameDuck.
func (s *Server) Running() bool { return s.running != nil && s.running.Running() }

// Stop ends the server and keeps its files. It does nothing on a server that
// is not running.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart starts the server again, on the same port and with the same files,
// and stops it before if it is running.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	s.start(tb)
}

// LameDuck tells clients to move away, waits until they have gone or two
// seconds have passed, and ends the server. It returns when the server has
// ended; call it from a goroutine to look on meanwhile.
func (s *Server) LameDuck() {
	s.running.LameDuckShutdown()
	s.running.WaitForShutdown()
}

// Embedded returns the server itself. It is another one after a restart.
func (s *Server) Embedded() *server.Server { return s.running }

// Connect returns a connection that is closed when the test ends, before the
// server is. It reconnects for ever, and fast, unless options say otherwise.
func (s *Server) Connect(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	return connect(tb, s.URL(), options)
}

// JetStream returns a JetStream context on a connection of its own.
func (s *Server) JetStream(tb testing.TB) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, s.Connect(tb))
}

func freePort(tb testing.TB) int {
	tb.Helper()
	port, err := testenv.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

func connect(tb testing.TB, url string, options []nats.Option) *nats.Conn {
	tb.Helper()
	all := append([]nats.Option{
		nats.Name(tb.Name()),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
	}, options...)
	conn, err := nats.Connect(url, all...)
	if err != nil {
		tb.Fatalf("connect to NATS at %s: %v", strings.ReplaceAll(url, ",", " or "), err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

func newJetStream(tb testing.TB, conn *nats.Conn) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatalf("use JetStream: %v", err)
	}
	return js
}
