package events

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// requestTimeout bounds an attempt whose context has no deadline.
	requestTimeout = 5 * time.Second
	// deniedCheck is how often an attempt without an answer looks whether it
	// was denied.
	deniedCheck = 250 * time.Millisecond
)

// attempt is something that a server is asked for. NATS drops what may not be
// published and says so beside the request, which would otherwise wait for its
// answer until the deadline and look like a server that is slow.
type attempt struct {
	log *Log
	// before was the connection's last asynchronous error. A denial is a new
	// one.
	before error
	cancel context.CancelFunc
	check  *time.Timer
}

// begin starts an attempt, and bounds its time if ctx does not. It must be
// ended. The context that it returns ends early when the attempt is denied.
func (l *Log) begin(ctx context.Context) (context.Context, *attempt) {
	a := &attempt{log: l, before: l.nc.LastError()}
	if _, ok := ctx.Deadline(); ok {
		ctx, a.cancel = context.WithCancel(ctx)
	} else {
		ctx, a.cancel = context.WithTimeout(ctx, requestTimeout)
	}
	a.check = time.AfterFunc(time.Hour, func() {
		switch {
		case ctx.Err() != nil:
		case a.denied() != nil:
			a.cancel()
		default:
			a.check.Reset(deniedCheck)
		}
	})
	a.check.Reset(deniedCheck) // now that the field is set
	return ctx, a
}

func (a *attempt) end() {
	a.check.Stop()
	a.cancel()
}

// denied returns the permission violation that has arrived since the attempt
// began, if it concerns the log.
func (a *attempt) denied() error {
	nc := a.log.nc
	last := nc.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	// A denial of the same subject reads the same. It is the value that is new.
	if last == a.before { //nolint:errorlint // identity is what is asked for
		return nil
	}
	text := last.Error()
	for _, subject := range []string{a.log.opts.Prefix + "." + eventToken, a.log.api, nats.InboxPrefix, nc.Opts.InboxPrefix} {
		if subject != "" && strings.Contains(text, subject) {
			return last
		}
	}
	return nil
}
