package election

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// A connection that brings nothing for deadAfterIdle is pinged, and closed
// when the ping is not answered within deadAfterPing. Requests, retries and
// the watch share one HTTP/2 connection: while it is dead and not known to be,
// every retry is lost on it (kubernetes/kubernetes#70971). client-go's own
// values, 30 s and 15 s, are longer than the usual lease.
const (
	deadAfterIdle = 3 * time.Second
	deadAfterPing = 2 * time.Second
	dialTimeout   = 5 * time.Second
)

// NewLeaseClient makes the client for an election's Lease. It is the
// election's own, apart from the other clients of the program, so that nothing
// can starve a renewal:
//
//   - a connection of its own, given up within five seconds when packets to
//     the API server vanish, and no rate limit on the client's side;
//   - protobuf, which is cheaper than JSON on both sides;
//   - no timeout that covers the whole client, since it would also end
//     watches: callers bound each request with its context, well below the
//     renew deadline, so that one request that hangs leaves time for another.
//
// Everything else is as cfg says. Files that hold a token, a client's
// certificate or the CAs are read again when they change; a token also at once
// when it is no longer accepted. A request that the server answers with 429 or
// 5xx and a Retry-After is repeated after that time, as long as the request's
// context lasts. cfg is not changed. A cfg.Transport that is set is used as it
// is.
func NewLeaseClient(cfg *rest.Config) (coordinationv1client.CoordinationV1Interface, error) {
	cfg = rest.CopyConfig(cfg)
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	cfg.UserAgent += "/leader-election"
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	cfg.Timeout = 0
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if cfg.Transport == nil {
		if cfg.Dial == nil {
			// A dialer of our own also keeps client-go from sharing the
			// transport with its other clients.
			cfg.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: deadAfterIdle}).DialContext
		}
		// Innermost, where the transport can still be seen.
		cfg.WrapTransport = transport.Wrappers(pingOften, cfg.WrapTransport)
	}
	if cfg.BearerTokenFile != "" {
		// By itself, client-go goes on with the token it has read for up to
		// 50 seconds, also when the server no longer accepts it. This source
		// is read again after a 401.
		tokens := transport.NewCachedFileTokenSource(cfg.BearerTokenFile)
		cfg.Wrap(transport.ResettableTokenSourceWrapTransport(tokens))
		cfg.BearerToken, cfg.BearerTokenFile = "", ""
	}
	client, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make the election's Kubernetes client: %w", err)
	}
	return client, nil
}

// pingOften sets how soon a dead HTTP/2 connection is noticed. client-go
// offers only environment variables for it, which would change every client of
// the process.
func pingOften(rt http.RoundTripper) http.RoundTripper {
	inner := rt
	for {
		switch t := inner.(type) {
		case utilnet.RoundTripperWrapper:
			inner = t.WrappedRoundTripper()
			continue
		case *http.Transport:
			if t != http.DefaultTransport && t.HTTP2 == nil {
				t.HTTP2 = &http.HTTP2Config{SendPingTimeout: deadAfterIdle, PingTimeout: deadAfterPing}
			}
		}
		return rt
	}
}
