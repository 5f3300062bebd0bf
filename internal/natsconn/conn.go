package natsconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// attemptTimeout bounds one attempt's dial, and then its greeting. It has
	// room for TLS over a satellite; nats.go holds its lock meanwhile, so
	// publishing blocks for as long.
	attemptTimeout = 5 * time.Second
	// A peer that vanished without a word is noticed after pingInterval times
	// maxPingsOut plus one, half a minute. nats.go's own setting takes minutes.
	pingInterval = 10 * time.Second
	maxPingsOut  = 2
)

// Conn is a connection that does not give up. All methods are safe for use by
// several goroutines, and the embedded connection can be handed to whatever
// wants a *nats.Conn.
type Conn struct {
	*nats.Conn

	opts Options
	log  *slog.Logger
	done chan struct{}

	dialing     context.Context
	stopDialing context.CancelFunc
	nc          atomic.Pointer[nats.Conn] // Conn, for callbacks that come before Connect returns

	mu        sync.Mutex
	journal   journal
	denied    denied
	up        chan struct{} // closed while the connection is up
	lastCause error         // why it is not
	upAt      time.Time     // when the latest connection was made
	attempts  int           // in vain, since a connection that lasted
	dialErr   error         // of the latest dial
	closing   bool          // Close or Drain was called
	err       error         // why it is closed for good
}

// Connect starts a connection. It returns after the first attempt, whether or
// not that succeeded: use WaitConnected to wait for one that does. The context
// bounds the first attempt only; the connection lives until Close.
//
// The error is an *InputError for options that can never work, a file that
// cannot be read included, or that of ctx.
func Connect(ctx context.Context, o Options, log *slog.Logger) (*Conn, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o, err := o.withContext()
	if err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Conn{opts: o, log: log, done: make(chan struct{}), up: make(chan struct{})}
	// Not from ctx: it outlives this call.
	c.dialing, c.stopDialing = context.WithCancel(context.Background())

	opts, err := c.options()
	if err != nil {
		c.stopDialing()
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.stopDialing)
	nc, err := nats.Connect("", opts...) // the servers are among the options
	if err != nil {
		stop()
		c.stopDialing()
		return nil, &InputError{Faults: []string{fmt.Sprintf("connect to NATS: %v", err)}}
	}
	c.Conn = nc
	c.nc.Store(nc)
	if !stop() {
		c.Close()
		return nil, fmt.Errorf("connect to NATS: %w", context.Cause(ctx))
	}
	return c, nil
}

// options turns our options into those of nats.go.
func (c *Conn) options() ([]nats.Option, error) {
	auth, f := c.opts.authentication(c.log)
	transport, tf := c.opts.transport()
	if err := append(f, tf...).err(); err != nil {
		return nil, err
	}
	urls, _ := parseURLs(c.opts.URLs)
	var servers []string
	for _, u := range urls {
		servers = append(servers, u.String())
	}
	opts := []nats.Option{
		// Not as one string: a password may contain a comma.
		func(o *nats.Options) error { o.Servers = servers; return nil },
		nats.Name(c.opts.Name),
		nats.Timeout(attemptTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPingsOut),

		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(c.nextWait),
		// An expired or revoked credential may be renewed on disk.
		nats.IgnoreAuthErrorAbort(),
		// What is published into an outage must fail, not be sent some time
		// after the caller gave up on it.
		nats.ReconnectBufSize(-1),

		// Resolving names in the dialer puts it under the dial's time limit.
		nats.SkipHostLookup(),
		nats.SetCustomDialer(c),

		nats.ConnectHandler(c.onConnected),
		nats.ReconnectHandler(c.onConnected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.onFailed(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.onFailed(err) }),
		nats.ErrorHandler(c.onError),
		nats.ClosedHandler(c.onClosed),
	}
	if c.opts.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.opts.InboxPrefix))
	}
	return append(append(opts, auth...), transport...), nil
}

// JetStreamAt tells where JetStream answers, by the options and the context.
// Both are empty for the usual place, and at most one is set.
func (c *Conn) JetStreamAt() (domain, apiPrefix string) {
	return c.opts.JSDomain, c.opts.JSAPIPrefix
}

// JetStream returns the JetStream interface for the domain or prefix that the
// options name.
func (c *Conn) JetStream(opts ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	switch {
	case c.opts.JSDomain != "":
		return jetstream.NewWithDomain(c.Conn, c.opts.JSDomain, opts...)
	case c.opts.JSAPIPrefix != "":
		return jetstream.NewWithAPIPrefix(c.Conn, c.opts.JSAPIPrefix, opts...)
	default:
		return jetstream.New(c.Conn, opts...)
	}
}

// WaitConnected returns when the connection is up, or with an error that says
// why it is not, when ctx ends or the connection is closed.
func (c *Conn) WaitConnected(ctx context.Context) error {
	// Nothing here asks nats.go, whose lock is held while it dials.
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-c.done:
		return fmt.Errorf("connect to NATS: %w", errors.Join(nats.ErrConnectionClosed, c.Err()))
	case <-ctx.Done():
		c.mu.Lock()
		cause := c.lastCause
		c.mu.Unlock()
		if cause == nil {
			return fmt.Errorf("connect to NATS at %s: %w", c.servers(), context.Cause(ctx))
		}
		return fmt.Errorf("connect to NATS at %s: %w (%w)", c.servers(), cause, context.Cause(ctx))
	}
}

// Done is closed when the connection is closed for good: by Close, or by the
// client library, which after some errors gives up whatever it was told.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil until Done is closed and after Close, and else why the library
// closed the connection. A process that needs the connection must then end.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits until its last callback has run. It must
// not be called from a callback.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.stopDialing()
	c.Conn.Close()
	<-c.done
}

// Drain delivers what was received, publishes what was sent, and then closes
// the connection, without waiting for that.
func (c *Conn) Drain() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	return c.Conn.Drain()
}

// Explain adds to err, the failure of a request on subject, that the server
// refused it, if it did: NATS tells a missing permission apart from the call,
// which only runs out of time. An empty subject stands for any. The error
// stays the same for errors.Is, and nil stays nil.
func (c *Conn) Explain(subject string, err error) error {
	if err == nil || errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	inbox := c.Opts.InboxPrefix
	if inbox == "" {
		inbox = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	c.mu.Lock()
	why := c.denied.find(time.Now(), subject, inbox)
	c.mu.Unlock()
	if why == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// Dial makes the network connection of one attempt. nats.go calls it with its
// lock held.
func (c *Conn) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.dialing, attemptTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	c.mu.Lock()
	c.dialErr = err
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.renewNKey()
	return conn, nil
}

// renewNKey sets the public key that belongs to the seed which is in the file
// now. nats.go has a callback for the signature alone; it reads the key after
// dialling, under the lock that it holds here.
func (c *Conn) renewNKey() {
	nc := c.nc.Load()
	if nc == nil || c.opts.NKey == "" {
		return
	}
	// A file that cannot be read shows when the nonce is signed.
	if public, err := nkeyPublic(c.opts.NKey); err == nil {
		nc.Opts.Nkey = public
	}
}

// nextWait is called once for each round of attempts, without nats.go's lock.
// round counts them since the connection was lost, from 1.
func (c *Conn) nextWait(round int) time.Duration {
	if cause := c.cause(); round > 1 && cause != nil {
		c.onFailed(cause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if round == 1 && !c.upAt.IsZero() && time.Since(c.upAt) >= lastedFor {
		c.attempts = 0
	}
	c.attempts++
	return wait(c.attempts, rand.Float64()) // #nosec G404 -- it only spreads load
}

// cause is why the latest attempt failed, or nil if that is not known.
func (c *Conn) cause() error {
	c.mu.Lock()
	err := c.dialErr
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if nc := c.nc.Load(); nc != nil {
		return nc.LastError()
	}
	return nil
}

func (c *Conn) onConnected(nc *nats.Conn) {
	c.mu.Lock()
	c.upAt = time.Now()
	line, away := c.journal.connected(c.upAt)
	c.denied = denied{} // permissions may have changed
	if c.lastCause = nil; line != silent {
		close(c.up)
	}
	c.mu.Unlock()
	switch line {
	case entryConnected:
		c.log.Info("connected to NATS", "url", redact(nc.ConnectedUrl()), "server", nc.ConnectedServerName(), "version", nc.ConnectedServerVersion())
	case entryBack:
		c.log.Info("connected to NATS again", "url", redact(nc.ConnectedUrl()), "server", nc.ConnectedServerName(), "away", away.Round(time.Millisecond))
	default:
	}
}

func (c *Conn) onFailed(cause error) {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return
	}
	line := c.journal.failed(time.Now(), cause)
	if errors.Is(cause, nats.ErrNoServers) && c.dialErr != nil {
		cause = c.dialErr // says more
	}
	if c.lastCause = cause; line == entryLost {
		c.up = make(chan struct{})
	}
	c.mu.Unlock()
	switch line {
	case entryUnreachable:
		c.log.Warn("NATS is not reachable, trying on", "servers", c.servers(), "cause", cause)
	case entryLost:
		c.log.Warn("NATS connection lost, trying on", "servers", c.servers(), "cause", cause)
	case entryRefused:
		c.log.Warn("NATS connection cannot be made, trying on", "servers", c.servers(), "cause", cause)
	default:
	}
}

// onError gets the errors that belong to no call.
func (c *Conn) onError(nc *nats.Conn, sub *nats.Subscription, err error) {
	c.mu.Lock()
	refused, isNew := c.denied.add(time.Now(), err)
	c.mu.Unlock()
	switch {
	case refused && isNew:
		c.log.Error("NATS refuses what this needs", "error", err)
	case refused:
	case sub != nil:
		c.log.Warn("NATS subscription has an error", "subject", sub.Subject, "error", err)
	case isAuthError(err) || !nc.IsConnected():
		c.onFailed(err) // from an attempt to connect, or its loss announced
	default:
		c.log.Warn("NATS connection has an error", "error", err)
	}
}

func isAuthError(err error) bool {
	for _, auth := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, auth) {
			return true
		}
	}
	return false
}

func (c *Conn) onClosed(nc *nats.Conn) {
	c.mu.Lock()
	if !c.closing {
		c.err = fmt.Errorf("the NATS client closed the connection for good: %w", nc.LastError())
	}
	c.mu.Unlock()
	c.stopDialing()
	close(c.done)
}

// servers names the servers without secrets.
func (c *Conn) servers() string {
	urls, _ := parseURLs(c.opts.URLs)
	if len(urls) == 0 {
		return nats.DefaultURL
	}
	var list []string
	for _, u := range urls {
		list = append(list, redact(u.String()))
	}
	return strings.Join(list, ",")
}
