package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// bucketStream is the name of the stream behind a key-value bucket.
func (o Options) bucketStream() string { return "KV_" + o.Bucket }

// viewConfig is the stream behind the bucket: a copy of the log that the
// server keeps by itself, with the election as key and the last event as
// value. It takes in no subject of its own, so that nobody can write to it,
// and the key-value clients of every language can read it.
func (o Options) viewConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              o.bucketStream(),
		Description:       "The last transition of each election",
		Sources:           []*jetstream.StreamSource{o.viewSource()},
		Storage:           jetstream.FileStorage,
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		DenyDelete:        true,
		AllowDirect:       true,
		Replicas:          o.Replicas,
		// The shortest window there is. The log may have lost its end and
		// say again what the bucket has already seen: that is news.
		Duplicates: 100 * time.Millisecond,
	}
}

func (o Options) viewSource() *jetstream.StreamSource {
	return &jetstream.StreamSource{
		Name: o.Stream,
		SubjectTransforms: []jetstream.SubjectTransformConfig{{
			Source:      o.subjectsOf(),
			Destination: "$KV." + o.Bucket + ".{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}",
		}},
	}
}

// diffView compares the stream behind the bucket with the one that is needed.
func diffView(o Options, have jetstream.StreamConfig) []Difference {
	recreate := "delete the bucket, it holds nothing but a copy of the log and is made anew: nats kv del " + o.Bucket
	want := o.viewSource()
	var d differences
	if !slices.ContainsFunc(have.Sources, func(s *jetstream.StreamSource) bool {
		return s.Name == want.Name && slices.Equal(s.SubjectTransforms, want.SubjectTransforms)
	}) {
		d.add("sources", listSources(have.Sources), listSources([]*jetstream.StreamSource{want}), recreate)
	}
	if have.MaxMsgsPerSubject < 1 {
		d.add("max_msgs_per_subject", strconv.FormatInt(have.MaxMsgsPerSubject, 10), "1", recreate)
	}
	if have.Retention != jetstream.LimitsPolicy {
		d.add("retention", strings.ToLower(have.Retention.String()), "limits", recreate)
	}
	if slices.ContainsFunc(have.Subjects, func(s string) bool { return overlap(s, o.subjectsOf()) }) {
		d.add("subjects", list(have.Subjects), "nothing of "+o.subjectsOf(), recreate)
	}
	return d
}

func listSources(sources []*jetstream.StreamSource) string {
	var all []string
	for _, s := range sources {
		all = append(all, s.Name)
		for _, t := range s.SubjectTransforms {
			all = append(all, fmt.Sprintf("(%s to %s)", t.Source, t.Destination))
		}
	}
	return list(all)
}

// viewSequence returns the log's sequence of the newest message in the bucket,
// or zero when there is none.
func (l *Log) viewSequence(ctx context.Context) (uint64, error) {
	msg, err := l.get(ctx, l.opts.bucketStream(), msgGet{LastBySubject: ">"})
	if errors.Is(err, ErrNoStream) || err == nil && msg == nil {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return sourceSequence(msg.header.Get(sourceHeader), l.opts.Stream), nil
}

// sourceHeader marks a message that the server copied from another stream.
const sourceHeader = "Nats-Stream-Source"

// sourceSequence reads that header: the stream's name, the sequence in it, and
// more, separated by spaces.
func sourceSequence(header, stream string) uint64 {
	fields := strings.Fields(header)
	if len(fields) < 2 {
		return 0
	}
	name, _, _ := strings.Cut(fields[0], ":")
	if name != stream {
		return 0
	}
	seq, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// repairView makes the bucket anew if it has seen more of the log than there
// is: then the stream was restored from an older state, or was made anew by
// hand, and the server would copy nothing into the bucket until the log has
// passed the sequence it once had. Meanwhile the bucket would show leaders that
// have long gone.
func (l *Log) repairView(ctx context.Context) error {
	// In this order: the log may grow meanwhile, the bucket can only follow.
	seen, err := l.viewSequence(ctx)
	if err != nil || seen == 0 {
		return err
	}
	stream, err := l.js.Stream(ctx, l.opts.Stream)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if seen <= last {
		return nil
	}
	if err := l.js.DeleteStream(ctx, l.opts.bucketStream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("the bucket %s is ahead of the log, at sequence %d of %d, and shows a state that is no longer: delete it by hand, it is made anew: %w",
			l.opts.Bucket, seen, last, err)
	}
	l.opts.Logger.Warn("made the leaders' bucket anew, because the log had lost its end",
		"bucket", l.opts.Bucket, "bucketSequence", seen, "logSequence", last)
	_, err = l.ensureStream(ctx, l.opts.viewConfig())
	return err
}
