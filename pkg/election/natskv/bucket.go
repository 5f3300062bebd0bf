package natskv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// notClustered is JetStream's answer to a stream with replicas on a server
// that stands alone.
const notClustered jetstream.ErrorCode = 10074

// ready makes sure that there is a connection and a bucket that fits.
func (l *lock) ready(ctx context.Context) error {
	if l.fit.Load() {
		return nil
	}
	s, err := l.find(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = l.make(ctx)
	}
	if err != nil {
		return err
	}
	if err := l.verify(s.CachedInfo().Config); err != nil {
		return err
	}
	l.fit.Store(true)
	return nil
}

func (l *lock) find(ctx context.Context) (s jetstream.Stream, err error) {
	err = l.guard(ctx, l.prefix+"STREAM.INFO."+l.stream, func(ctx context.Context) error {
		s, err = l.js.Stream(ctx, l.stream)
		return err
	})
	return s, err
}

// make creates the bucket as nats.go would, but for two things: it begins with
// a revision that no earlier bucket of its name can have reached, and replicas
// do not answer reads.
func (l *lock) make(ctx context.Context) (s jetstream.Stream, err error) {
	config := jetstream.StreamConfig{
		Name:        l.stream,
		Description: "Locks of leaderbridge elections, one key each",
		Subjects:    []string{"$KV." + l.bucket + ".>"},
		// A watch that is a little late must still see each state: a hand-over
		// whose release was skipped looks like an overwritten record.
		MaxMsgsPerSubject: history,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		DenyDelete:        true,
		FirstSeq:          uint64(time.Now().UnixMicro()),
		Replicas:          l.replicas,
	}
	if l.replicas == 0 {
		config.Replicas = 3
	}
	create := func(ctx context.Context) error {
		s, err = l.js.CreateStream(ctx, config)
		return err
	}
	subject := l.prefix + "STREAM.CREATE." + l.stream
	err = l.guard(ctx, subject, create)
	if l.replicas == 0 && hasCode(err, notClustered) {
		config.Replicas = 1
		err = l.guard(ctx, subject, create)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return l.find(ctx) // another candidate was faster
	case err != nil:
		return nil, fmt.Errorf("make the bucket %s: %w", l.bucket, err)
	}
	l.log.Info("made the bucket for election locks", "bucket", l.bucket, "replicas", config.Replicas)
	return s, nil
}

// history is how many states of a key the bucket keeps: more than candidates
// write while a watch takes a breath.
const history = 16

// verify names everything that makes a bucket unfit.
func (l *lock) verify(c jetstream.StreamConfig) error {
	var faults []string
	fault := func(unfit bool, format string, args ...any) {
		if unfit {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	want := "$KV." + l.bucket + ".>"
	fault(len(c.Subjects) != 1 || c.Subjects[0] != want, "subjects are %q, not %q", c.Subjects, want)
	fault(c.Retention != jetstream.LimitsPolicy, "retention is %s, not limits", c.Retention)
	fault(c.Storage != jetstream.FileStorage, "storage is %s, so that a restart forgets who holds a lock: use file", c.Storage)
	fault(c.MaxAge != 0, "records expire after %s: use no time to live", c.MaxAge)
	fault(c.Discard != jetstream.DiscardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0), "old records make room for new ones: discard new ones instead")
	fault(c.NoAck, "writes are not acknowledged")
	fault(c.Mirror != nil || len(c.Sources) > 0, "it is fed from another stream")
	fault(c.SubjectTransform != nil, "it renames its keys")
	fault(c.Sealed, "it is sealed")
	fault(l.replicas > 0 && c.Replicas < l.replicas, "it has %d replicas, not %d", c.Replicas, l.replicas)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("the bucket %s does not fit and is left alone: %s", l.bucket, strings.Join(faults, "; "))
}
