package failover

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// TraceID returns the trace id of the failover that leads to a term: the first
// 16 bytes of SHA-256 over "<source>#<epoch>", where source is the CloudEvents
// source of the election's events and epoch the number of the coming term in
// decimal. Anybody can compute it.
func TraceID(source string, epoch uint64) trace.TraceID {
	id, _ := derive(source, epoch)
	return id
}

// RootSpanID returns the id of the same trace's root span: the next 8 bytes of
// the same hash.
func RootSpanID(source string, epoch uint64) trace.SpanID {
	_, id := derive(source, epoch)
	return id
}

func derive(source string, epoch uint64) (t trace.TraceID, s trace.SpanID) {
	sum := sha256.Sum256([]byte(source + "#" + strconv.FormatUint(epoch, 10)))
	copy(t[:], sum[:16])
	copy(s[:], sum[16:24])
	return t, s
}

// IDGenerator gives the root span of a failover its derived ids, and every
// other span random ones. It is an sdktrace.IDGenerator; without it in the
// tracer provider, each process has a trace of its own for a failover.
type IDGenerator struct{}

// NewIDs returns the ids of a root span.
func (IDGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if t, ok := ctx.Value(termKey{}).(term); ok {
		return derive(t.source, t.epoch)
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], random())
		binary.BigEndian.PutUint64(id[8:], random())
	}
	return id, IDGenerator{}.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a span that has a parent.
func (IDGenerator) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], random())
	}
	return id
}

// random is a part of an id, which must be unique, and is no secret.
func random() uint64 { return rand.Uint64() } // #nosec G404

// term tells IDGenerator, through the context, whose root span begins.
type term struct {
	source string
	epoch  uint64
}

type termKey struct{}
