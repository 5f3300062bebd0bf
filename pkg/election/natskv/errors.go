package natskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// JetStream's error codes for which nats.go has no name.
const (
	clusterNotAvailable jetstream.ErrorCode = 10008
	insufficientStorage jetstream.ErrorCode = 10047
	maximumBytes        jetstream.ErrorCode = 10077
)

// lockError is one readable line, and the errors that it comes from.
type lockError struct {
	text   string
	causes []error
}

func (e *lockError) Error() string   { return e.text }
func (e *lockError) Unwrap() []error { return e.causes }

func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return slices.Contains(codes, api.ErrorCode)
}

// fail words the error of a method, and says what it means to the election.
func (l *lock) fail(verb string, err error) error {
	causes := []error{err}
	why := err.Error()
	switch {
	case errors.Is(err, election.ErrConflict), errors.Is(err, election.ErrRefused):
	case hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		why = "another write of the key does not end: the bucket " + l.bucket + " may have lost the majority of its servers"
	case hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence):
		causes = append(causes, election.ErrConflict)
		why = election.ErrConflict.Error() + ": " + why
	case hasCode(err, jetstream.JSErrCodeStreamMessageExceedsMaximum):
		causes = append(causes, election.ErrRefused)
		why = election.ErrRefused.Error() + ": the record is larger than the bucket allows: " + why
	case hasCode(err, insufficientStorage, maximumBytes):
		why = "the bucket or its server is full: " + why
	case hasCode(err, clusterNotAvailable):
		why = "the bucket " + l.bucket + " has no leader: are most of its servers running?"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		why = "JetStream is not enabled for this account"
	case errors.Is(err, jetstream.ErrStreamNotFound):
		why = "the bucket " + l.bucket + " is gone"
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		// A bucket without a leader and one that is gone look the same to a
		// writer; the next read tells.
		why = "nobody answers: JetStream is off, starting, or without a leader for the bucket " + l.bucket
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		why = "no answer in time: the bucket " + l.bucket + " may have lost its leader or the majority of its servers"
	}
	return &lockError{
		text:   verb + " " + l.String() + ": " + strings.Join(strings.Fields(why), " "),
		causes: causes,
	}
}

// guard makes a request to subject, unless the connection is down, and joins
// it with the server's word that it was not allowed. A request without
// permission gets no answer; the server says so on the connection instead
// (nats-io/nats.go#978).
func (l *lock) guard(ctx context.Context, subject string, request func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// nats.go would keep the request and send it after reconnecting, when it
	// may no longer be meant.
	if status := l.conn.Status(); status != nats.CONNECTED {
		if err := l.conn.LastError(); err != nil {
			return fmt.Errorf("not connected to NATS (%s): %w", strings.ToLower(status.String()), err)
		}
		return fmt.Errorf("not connected to NATS (%s)", strings.ToLower(status.String()))
	}
	before := l.conn.LastError()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = request(ctx)
	}()
	tick := time.NewTicker(permissionPoll)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if err != nil {
				if denied := l.denied(before, subject); denied != nil {
					return denied
				}
			}
			return err
		case <-tick.C:
			if denied := l.denied(before, subject); denied != nil {
				cancel(denied)
				<-done
				return denied
			}
		}
	}
}

// permissionPoll is how often a request that waits looks for a refusal. The
// connection's own error handler belongs to the program.
const permissionPoll = 25 * time.Millisecond

// denied returns the connection's error if it is newer than before and says
// that publishing to subject is not permitted: then the request was not made.
func (l *lock) denied(before error, subject string) error {
	err := l.conn.LastError()
	if err == before || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // a new one, not an equal one
		return nil
	}
	if !strings.Contains(err.Error(), `Publish to "`+subject) {
		return nil
	}
	return fmt.Errorf("%w: the connection's user may not publish to %q: add it to the user's permissions", election.ErrRefused, subject)
}
