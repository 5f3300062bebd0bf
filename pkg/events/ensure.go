package events

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Ensure creates the stream and the bucket where they are absent, and verifies
// them where they are present. It alters neither. The error of a misfit matches
// ErrMisfit and names every difference and its remedy. Whoever may only look
// them up can ensure a log that others have created.
//
// Call it again after an error that matches ErrNoStream. A stream that has
// vanished is then made anew with sequences that go on far above all that were
// seen, by this Log or by the bucket: the bucket's source and every follower
// would otherwise wait until the new stream has grown as long as the old one.
func (l *Log) Ensure(ctx context.Context) error {
	if err := l.ensure(ctx); err != nil {
		return fmt.Errorf("open the log %s: %w", l.opts.Stream, err)
	}
	return nil
}

func (l *Log) ensure(ctx context.Context) error {
	if err := l.connected(); err != nil {
		return err
	}
	config := l.opts.logConfig()
	log, err := l.lookUp(ctx, config.Name)
	if errors.Is(err, ErrNoStream) {
		seen, seenErr := l.viewSequence(ctx)
		if seenErr != nil {
			return seenErr
		}
		if seen = max(seen, l.high.Load()); seen > 0 {
			config.FirstSeq = seen + leap
		}
		log, err = l.ensureStream(ctx, config)
	}
	if err != nil {
		return err
	}
	view, err := l.ensureStream(ctx, l.opts.viewConfig())
	if err != nil {
		return err
	}
	if err := misfit(
		l.opts.Stream, diffLog(l.opts, log.Config),
		l.opts.Bucket, diffView(l.opts, view.Config),
	); err != nil {
		return err
	}
	l.atomic.Store(atomicOn(log.Config))
	if err := l.repairView(ctx); err != nil {
		// The log itself is sound, and must not wait for its copy.
		l.opts.Logger.Error("cannot repair the leaders' bucket", "bucket", l.opts.Bucket, "error", err)
	}
	return nil
}

// leap is how far the sequences of a log that is made anew lie above those that
// its maker knew of. Others may have seen more: under a sequence that they know
// they would take a new message for an old one, and a condition on it for true.
const leap = 1 << 20

// lookUp returns what the server says about a stream.
func (l *Log) lookUp(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, a := l.begin(ctx)
	defer a.end()
	stream, err := l.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look up the stream %s: %w", name, a.explain(err))
	}
	return stream.CachedInfo(), nil
}

// ensureStream returns the stream of that name, and creates it if there is
// none.
func (l *Log) ensureStream(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	info, err := l.lookUp(ctx, config.Name)
	if !errors.Is(err, ErrNoStream) {
		return info, err
	}
	ctx, a := l.begin(ctx)
	defer a.end()
	stream, err := l.create(ctx, config)
	switch {
	case err == nil:
		return stream.CachedInfo(), nil
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		// Somebody else was faster, with a configuration of another version.
		return l.lookUp(ctx, config.Name)
	case codeOf(err) == codeSubjectsOverlap:
		return nil, fmt.Errorf("%w: %w", ErrMisfit, l.overlapping(ctx, config, err))
	case codeOf(err) == codeNoPeers:
		err = fmt.Errorf("%w: start the servers that are missing, or ask for fewer replicas", err)
	}
	return nil, fmt.Errorf("create the stream %s: %w", config.Name, a.explain(err))
}

// create makes a stream. Where the number of replicas is left to the servers,
// it asks for three, and for one from a server that has no cluster.
func (l *Log) create(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	if config.Replicas != 0 {
		return l.js.CreateStream(ctx, config)
	}
	config.Replicas = 3
	stream, err := l.js.CreateStream(ctx, config)
	if codeOf(err) == codeReplicasNotSupported {
		config.Replicas = 1
		return l.js.CreateStream(ctx, config)
	}
	return stream, err
}

// overlapping names the stream that has the log's subjects already.
func (l *Log) overlapping(ctx context.Context, config jetstream.StreamConfig, err error) error {
	for _, subject := range config.Subjects {
		if name, lookup := l.js.StreamNameBySubject(ctx, subject); lookup == nil {
			return fmt.Errorf("the stream %s has the subjects %s, want them in %s (log to that stream, choose another subject prefix, or take the subjects from it)",
				name, subject, config.Name)
		}
	}
	return err
}

// misfit is one line about all the differences, or nil.
func misfit(stream string, ofStream []Difference, bucket string, ofBucket []Difference) error {
	var all []string
	for _, d := range ofStream {
		all = append(all, "stream "+stream+": "+d.String())
	}
	for _, d := range ofBucket {
		all = append(all, "bucket "+bucket+": "+d.String())
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrMisfit, strings.Join(all, "; "))
}
