package failover

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// Relation says how a consumer's spans stand to the event's own.
type Relation string

const (
	// ChildOf continues the event's trace, with the event's sampling decision
	// (unless the sampler is one that ignores parents). It is the default: a
	// worker acts within seconds, and is part of the failover.
	ChildOf Relation = "child"
	// LinkTo begins a trace of the consumer's own that links to the event's.
	// It fits many consumers, and those that replay old events.
	LinkTo Relation = "link"
)

// ConsumerOptions configure a consumer.
type ConsumerOptions struct {
	// Provider makes the spans; nil turns tracing off.
	Provider trace.TracerProvider
	// Prefix is the first token of the log's subjects.
	Prefix string
	// Role is the worker's role; may be empty.
	Role string
	// Relation is ChildOf when empty.
	Relation Relation
}

// Consumer makes the spans of one who reacts to events. Methods are safe for
// concurrent use; on nil they return a span that does nothing.
type Consumer struct {
	tracer trace.Tracer
	o      ConsumerOptions
}

// NewConsumer returns a consumer, or nil when tracing is off.
func NewConsumer(o ConsumerOptions) *Consumer {
	if o.Provider == nil {
		return nil
	}
	return &Consumer{tracer: o.Provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)), o: o}
}

// Process begins the CONSUMER span for one event. End it when the event has
// been dealt with; what goes on after that, such as a worker's work, is not
// part of it.
func (c *Consumer) Process(ctx context.Context, ev events.Event) (context.Context, trace.Span) {
	if c == nil {
		return ctx, noop.Span{}
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(messageAttributes(c.o.Prefix, ev)...),
		trace.WithAttributes(semconv.MessagingOperationName(process), semconv.MessagingOperationTypeProcess),
	}
	if c.o.Role != "" {
		options = append(options, trace.WithAttributes(roleKey.String(c.o.Role)))
	}
	ctx, options = c.because(ctx, ev, options)
	return c.tracer.Start(ctx, process+" "+template(c.o.Prefix, ev.Transition), options...) //nolint:spancheck // the caller ends it
}

// because relates a span to the event that caused it.
func (c *Consumer) because(ctx context.Context, ev events.Event, options []trace.SpanStartOption) (context.Context, []trace.SpanStartOption) {
	switch cause := SpanContext(ctx, ev); {
	case !cause.IsValid():
		return ctx, append(options, trace.WithNewRoot())
	case c.o.Relation == LinkTo:
		return ctx, append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: cause}))
	default:
		return trace.ContextWithRemoteSpanContext(ctx, cause), options
	}
}

// RunWorker begins the span of one run that a worker makes for an event.
func (c *Consumer) RunWorker(ctx context.Context, ev events.Event) (context.Context, trace.Span) {
	if c == nil {
		return ctx, noop.Span{}
	}
	options := []trace.SpanStartOption{
		c.worker(ev.Election, ev.Epoch),
		trace.WithAttributes(semconv.CloudEventsEventID(ev.ID()), semconv.CloudEventsEventType(ev.Type())),
	}
	ctx, options = c.because(ctx, ev, options)
	return c.tracer.Start(ctx, "worker run", options...) //nolint:spancheck // the caller ends it
}

// StartWorker begins the span in which a worker is started for a term: from the
// decision until it runs. Give a context from Process or Failover. If it has no
// span, as when another worker had the role until now, the span begins a trace
// of its own that links to the failover that began the term.
func (c *Consumer) StartWorker(ctx context.Context, e events.Election, epoch uint64) (context.Context, trace.Span) {
	if c == nil {
		return ctx, noop.Span{}
	}
	options := []trace.SpanStartOption{c.worker(e, epoch)}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: rootContext(e.Source(), epoch)}))
	}
	return c.tracer.Start(ctx, "worker start", options...) //nolint:spancheck // the caller ends it
}

// LeaveWorker begins the span in which a worker is stopped although the term
// goes on. It is no part of a failover, but links to the one that began the
// term.
func (c *Consumer) LeaveWorker(ctx context.Context, e events.Election, epoch uint64, reason string) (context.Context, trace.Span) {
	if c == nil {
		return ctx, noop.Span{}
	}
	return c.tracer.Start(ctx, "worker stop", c.worker(e, epoch), trace.WithNewRoot(), //nolint:spancheck // the caller ends it
		trace.WithAttributes(reasonKey.String(reason)),
		trace.WithLinks(trace.Link{SpanContext: rootContext(e.Source(), epoch)}))
}

// StopWorker begins the span in which the worker of a term is stopped: from the
// decision until it is gone. The context may be from Process. If it has no
// span, as when a grant lapsed because the leader is dead, the span still
// belongs to the failover that ends the term, whose trace id is known.
func (c *Consumer) StopWorker(ctx context.Context, e events.Election, epoch uint64, reason string) (context.Context, trace.Span) {
	if c == nil {
		return ctx, noop.Span{}
	}
	options := []trace.SpanStartOption{c.worker(e, epoch), trace.WithAttributes(reasonKey.String(reason))}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = c.Failover(ctx, e, epoch+1)
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: rootContext(e.Source(), epoch+1)}))
	}
	return c.tracer.Start(ctx, "worker stop", options...) //nolint:spancheck // the caller ends it
}

// Failover returns a context for what belongs to the failover that leads to a
// term, when no event of it has been read yet: its trace id is known all the
// same. When spans are linked instead, or when the provider makes ids of its
// own, it is ctx.
func (c *Consumer) Failover(ctx context.Context, e events.Election, epoch uint64) context.Context {
	if c == nil || c.o.Relation == LinkTo {
		return ctx
	}
	with, root := startRoot(ctx, c.tracer, e.Source(), epoch)
	if root.SpanContext().TraceID() != rootContext(e.Source(), epoch).TraceID() {
		return ctx
	}
	return with
}

func (c *Consumer) worker(e events.Election, epoch uint64) trace.SpanStartEventOption {
	attributes := append(electionAttributes(e), number(epochKey, epoch))
	if c.o.Role != "" {
		attributes = append(attributes, roleKey.String(c.o.Role))
	}
	return trace.WithAttributes(attributes...)
}
