// Package tcpproxy stands between clients and a server in a test, and fails as
// networks do: it carries nothing more without telling anybody, or cuts
// connections.
package tcpproxy

import (
	"net"
	"sync"
	"testing"
)

// Proxy carries TCP connections to one server. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond // of frozen, stopped or a link's state
	frozen bool
	links  map[*link]struct{}
}

// link is one client's connection and its other half.
type link struct {
	client, server net.Conn
	dead           bool // carries nothing ever again
	closed         bool
}

// Start carries connections to target, a host and port, until the test ends.
func Start(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen for the proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}}
	p.change = sync.NewCond(&p.mu)
	p.wait.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
		p.wait.Wait()
	})
	return p
}

// Addr returns the host and port for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Freeze carries nothing more, on present connections and on new ones, until
// Thaw. All stay open.
func (p *Proxy) Freeze() { p.set(func() { p.frozen = true }) }

// Thaw carries again, beginning with what waited.
func (p *Proxy) Thaw() { p.set(func() { p.frozen = false }) }

// Blackhole never again carries anything on the present connections, which
// stay open, as behind a firewall that lost its state. New ones work.
func (p *Proxy) Blackhole() {
	p.set(func() {
		for l := range p.links {
			l.dead = true
		}
	})
}

// Cut closes all connections. New ones work.
func (p *Proxy) Cut() {
	p.set(func() {
		for l := range p.links {
			l.closeLocked()
		}
	})
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.change.Broadcast()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.set(func() { p.links[l] = struct{}{} })
		p.wait.Go(func() { p.carry(l, client, server) })
		p.wait.Go(func() { p.carry(l, server, client) })
	}
}

// carry brings what from says to to, until either half ends.
func (p *Proxy) carry(l *link, from, to net.Conn) {
	defer p.set(func() {
		l.closeLocked()
		delete(p.links, l)
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the link may carry, and reports whether it still can.
func (p *Proxy) pass(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.frozen || l.dead) && !l.closed {
		p.change.Wait()
	}
	return !l.closed
}

func (l *link) closeLocked() {
	l.closed = true
	_ = l.client.Close()
	_ = l.server.Close()
}
