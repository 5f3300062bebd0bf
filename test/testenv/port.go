package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below the ranges from which Linux (32768 and up) and macOS (49152 and
// up) take the source ports of outgoing connections.
const (
	firstPort = 12000
	lastPort  = 32000
)

// given are the ports that this process has had. Most are not listened on yet
// when the next one is drawn, and of thousands two are soon the same.
var given sync.Map

// FreePort returns a TCP port that nobody listens on at 127.0.0.1, another one
// each time. It is safe for concurrent use.
//
// Listening on port 0 would do for a server that starts once. One that is
// stopped and started again on its port must not find an outgoing connection
// there; and a client that keeps dialling a closed port from the range of
// source ports will, rarely, connect to itself.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort) // #nosec G404 -- a port is no secret
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("close the listener that tried port %d: %w", port, err)
		}
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free TCP port between %d and %d: a hundred tries found none", firstPort, lastPort)
}
