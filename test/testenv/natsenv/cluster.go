package natsenv

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// Size is the number of servers in a cluster.
const Size = 3

// Cluster is three NATS servers with a replicated JetStream. Servers are named
// by their index, 0 to 2. The methods must be called from the goroutine that
// runs the test.
type Cluster struct {
	servers [Size]*Server
}

// StartCluster runs a cluster until the test ends. It returns when JetStream
// has a leader and all servers take part.
func StartCluster(tb testing.TB, options ...Option) *Cluster {
	tb.Helper()
	c := &Cluster{}
	var (
		ports  [Size]int
		routes []*url.URL
	)
	for i := range ports {
		ports[i] = freePort(tb)
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i]))})
	}
	for i := range c.servers {
		c.servers[i] = newServer(tb, fmt.Sprintf("node-%d", i), append([]Option{func(o *server.Options) {
			o.Cluster = server.ClusterOpts{Name: "natsenv", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}}, options...))
	}
	for _, s := range c.servers {
		s.launch(tb)
	}
	c.WaitReady(tb)
	return c
}

// WaitReady waits until JetStream has a leader and every running server takes
// part and has caught up.
func (c *Cluster) WaitReady(tb testing.TB) {
	tb.Helper()
	testenv.Eventually(tb, startTimeout, func() error {
		running, leader := 0, -1
		for i, s := range c.servers {
			if !s.Running() {
				continue
			}
			running++
			if !s.running.ReadyForConnections(startTimeout) {
				return fmt.Errorf("server %d does not accept connections", i)
			}
			if !s.running.JetStreamIsCurrent() {
				return fmt.Errorf("server %d has not caught up with JetStream's leader", i)
			}
			if h := s.running.Healthz(nil); h.Error != "" {
				return fmt.Errorf("server %d: %s", i, h.Error)
			}
			if s.running.JetStreamIsLeader() {
				leader = i
			}
		}
		if leader < 0 {
			return fmt.Errorf("JetStream has no leader among %d running servers", running)
		}
		if peers := len(c.servers[leader].running.JetStreamClusterPeers()); peers < running {
			return fmt.Errorf("JetStream's leader sees %d of %d running servers", peers, running)
		}
		return nil
	})
}

// Server returns a server by its index.
func (c *Cluster) Server(i int) *Server { return c.servers[i] }

// URLs returns the addresses of all servers, running or not, separated by
// commas.
func (c *Cluster) URLs() string {
	var urls []string
	for _, s := range c.servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection to the cluster that is closed when the test
// ends. It reconnects for ever, and fast, unless options say otherwise.
func (c *Cluster) Connect(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	return connect(tb, c.URLs(), options)
}

// JetStream returns a JetStream context on a connection of its own.
func (c *Cluster) JetStream(tb testing.TB) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, c.Connect(tb))
}

// Stop ends the server with the given index and keeps its files.
func (c *Cluster) Stop(i int) { c.servers[i].Stop() }

// Restart starts the server with the given index again, with the same ports
// and files, and waits until the cluster is whole.
func (c *Cluster) Restart(tb testing.TB, i int) {
	tb.Helper()
	c.servers[i].Restart(tb)
	c.WaitReady(tb)
}

// StreamLeader waits until a running server leads the stream in the default
// account, and returns its index.
func (c *Cluster) StreamLeader(tb testing.TB, stream string) int {
	tb.Helper()
	leader := -1
	testenv.Eventually(tb, startTimeout, func() error {
		for i, s := range c.servers {
			if s.Running() && s.running.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("nobody leads the stream %s", stream)
	})
	return leader
}
