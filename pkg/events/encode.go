package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// envelope is the structured form. The order of its fields is the one in which
// people read them.
type envelope struct {
	SpecVersion     string  `json:"specversion"`
	ID              string  `json:"id"`
	Type            string  `json:"type"`
	Source          string  `json:"source"`
	Subject         string  `json:"subject"`
	Time            string  `json:"time"`
	DataContentType string  `json:"datacontenttype"`
	DataSchema      string  `json:"dataschema"`
	Epoch           uint64  `json:"epoch"`
	TraceParent     string  `json:"traceparent,omitempty"`
	TraceState      string  `json:"tracestate,omitempty"`
	Data            payload `json:"data"`
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
	out := envelope{
		SpecVersion:     specVersion,
		ID:              e.ID(),
		Type:            e.Type(),
		Source:          e.Election.Source(),
		Subject:         encodeSubject(e.Who()),
		Time:            e.Time.UTC().Format(time.RFC3339Nano),
		DataContentType: dataType,
		DataSchema:      DataSchema,
		Epoch:           e.Epoch,
		TraceParent:     parent,
		TraceState:      state,
		Data:            payloadOf(e),
	}
	header := nats.Header{}
	if parent != "" {
		header[traceParentKey] = []string{parent}
	}
	if state != "" {
		header[traceStateKey] = []string{state}
	}
	var content any
	switch mode {
	case Structured, "":
		header[contentType] = []string{structuredType}
		content = &out
	case Binary:
		out.setHeaders(header)
		content = &out.Data
	default:
		return nil, nil, fmt.Errorf("encode event: content mode %s is not known: want structured or binary", quote(string(mode)))
	}
	data, err := marshal(content)
	if err != nil {
		return nil, nil, fmt.Errorf("encode event: %w", err)
	}
	return header, data, nil
}

func (v *envelope) setHeaders(header nats.Header) {
	for _, attribute := range []struct{ name, value string }{
		{"specversion", v.SpecVersion},
		{"id", v.ID},
		{"type", v.Type},
		{"source", v.Source},
		{"subject", v.Subject},
		{"time", v.Time},
		{"datacontenttype", v.DataContentType},
		{"dataschema", v.DataSchema},
		{"epoch", strconv.FormatUint(v.Epoch, 10)},
		{traceParentKey, v.TraceParent},
		{traceStateKey, v.TraceState},
	} {
		if attribute.value != "" {
			header[headerPrefix+attribute.name] = []string{encodeHeader(attribute.value)}
		}
	}
}

// marshal is json.Marshal without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
