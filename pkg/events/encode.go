package events

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// attribute is one of an event's CloudEvents attributes; an empty value is none.
type attribute struct{ name, value string }

// attributesOf returns the attributes in the order in which people read them.
func attributesOf(e Event, traceParent, traceState string) [11]attribute {
	return [...]attribute{
		{"specversion", specVersion},
		{"id", e.ID()},
		{"type", e.Type()},
		{"source", e.Election.Source()},
		{"subject", encodeSubject(e.Who())},
		{"time", e.Time.UTC().Format(time.RFC3339Nano)},
		{"datacontenttype", dataType},
		{"dataschema", DataSchema},
		{epochKey, strconv.FormatUint(e.Epoch, 10)},
		{traceParentKey, traceParent},
		{traceStateKey, traceState},
	}
}

// Encode writes an event as the headers and the data of a NATS message. An
// empty mode is [Structured]. It fails on what [Event.Validate] refuses, and on
// nothing else; a trace context that is not well-formed is left out. Headers
// hold printable ASCII only. The caller adds what concerns delivery, such as
// Nats-Msg-Id.
//
// It is safe for use by several goroutines.
func Encode(e Event, mode ContentMode) (nats.Header, []byte, error) {
	if err := e.Validate(); err != nil {
		return nil, nil, fmt.Errorf("encode event: %w", err)
	}
	parent, state := traceContext(e.TraceParent, e.TraceState)
	header := nats.Header{}
	if parent != "" {
		header[traceParentKey] = []string{parent}
	}
	if state != "" {
		header[traceStateKey] = []string{state}
	}
	attributes := attributesOf(e, parent, state)
	switch mode {
	case Structured, "":
		header[contentType] = []string{structuredType}
		return header, appendStructured(make([]byte, 0, usualSize), attributes, e), nil
	case Binary:
		for _, a := range attributes {
			if a.value != "" {
				header[headerPrefix+a.name] = []string{encodeHeader(a.value)}
			}
		}
		return header, appendPayload(make([]byte, 0, usualSize), e), nil
	default:
		return nil, nil, fmt.Errorf("encode event: content mode %s is not known: want structured or binary", quote(string(mode)))
	}
}

// usualSize is room for an event with identities as Kubernetes makes them.
const usualSize = 1280

func appendStructured(b []byte, attributes [11]attribute, e Event) []byte {
	o := beginObject(b)
	for _, a := range attributes {
		switch {
		case a.value == "":
		case a.name == epochKey:
			o.raw(a.name, a.value)
		default:
			o.text(a.name, a.value)
		}
	}
	o.name("data")
	o.b = appendPayload(o.b, e)
	return o.end()
}
