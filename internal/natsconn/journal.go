package natsconn

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// link is what the journal knows of the connection.
type link int

const (
	neverUp link = iota
	down
	up
)

// journal folds what happens to the connection into few log lines: one when an
// outage begins, one when it ends, and one for each cause in between that is
// more than "unreachable". It only decides; the connection logs.
type journal struct {
	link  link
	since time.Time
	// told holds the causes that this outage has had a line for.
	told map[string]bool
}

// entry is a log line to write.
type entry int

const (
	silent entry = iota
	entryConnected
	entryBack
	entryUnreachable // not there from the start
	entryLost
	entryRefused // there, but it or we object
)

// connected notes that the link is up. For a link that was up before, it also
// tells how long it was away.
func (j *journal) connected(now time.Time) (entry, time.Duration) {
	was, since := j.link, j.since
	j.link, j.since, j.told = up, now, nil
	switch was {
	case neverUp:
		return entryConnected, 0
	case down:
		return entryBack, now.Sub(since)
	default:
		return silent, 0
	}
}

// failed notes the loss of the link, or one more attempt in vain.
func (j *journal) failed(now time.Time, cause error) entry {
	class := classOf(cause)
	if j.told == nil {
		j.told = map[string]bool{}
	}
	begins := j.link == up || j.since.IsZero()
	if begins {
		j.since = now
	}
	if j.link == up {
		j.link = down
	}
	// An outage that begins is always told, and any cause that says
	// "unreachable" is told with it: a server that restarts is first lost, then
	// refuses connections, and that is one piece of news.
	known := j.told[class] || class == unreachable
	j.told[class] = true
	switch {
	case begins && j.link == neverUp && class == unreachable:
		return entryUnreachable
	case begins && j.link == neverUp:
		return entryRefused
	case begins:
		return entryLost
	case known:
		return silent
	default:
		return entryRefused
	}
}

// unreachable is the class of all causes that lie in the network.
const unreachable = "unreachable"

// classOf puts causes together that are one piece of news.
func classOf(cause error) string {
	if cause == nil || errors.Is(cause, nats.ErrNoServers) || errors.Is(cause, nats.ErrStaleConnection) ||
		errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, net.ErrClosed) {
		return unreachable
	}
	// These can wrap what looks like an error of the network.
	_, file := errors.AsType[*fs.PathError](cause)
	if errors.Is(cause, nats.ErrTLS) || file {
		return cause.Error()
	}
	if _, ok := errors.AsType[net.Error](cause); ok {
		return unreachable
	}
	return strings.ToLower(cause.Error())
}
