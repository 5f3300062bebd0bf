package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// ContentMode is one of the two ways in which CloudEvents travel over NATS.
type ContentMode string

const (
	// Structured puts attributes and data into the message as one JSON object.
	// It is the mode of the released NATS binding, and the default.
	Structured ContentMode = "structured"
	// Binary puts each attribute into a header of its own, and the data alone
	// into the message.
	Binary ContentMode = "binary"
)

// MaxMessage is the size in bytes, of headers and data together, beyond which
// [Decode] refuses a message. Everything that [Encode] writes stays below it.
const MaxMessage = 256 << 10

const (
	specVersion    = "1.0"
	contentType    = "Content-Type"
	structuredType = "application/cloudevents+json"
	batchType      = "application/cloudevents-batch"
	dataType       = "application/json"
	headerPrefix   = "ce-"
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

// Decode reads an event from the headers and the data of a NATS message, in
// either content mode, and also the structured form without any header that
// the CloudEvents SDK for Go writes. Header names are matched without regard to
// case.
//
// An event of another type gives an [UnknownTypeError]. Every other error says
// in one line why the message is no event of this contract: it is too large, a
// batch, not a CloudEvent, incomplete, or its attributes contradict its data.
// Unknown attributes, unknown members of data and unknown words for reason and
// perspective are accepted, since a later version may write them.
//
// TraceParent and TraceState come from the message's headers when those hold a
// well-formed context, else from the extension: a message may have been relayed
// under another span, and servers before 2.14 may rename the header
// (nats-io/nats-server#7755).
//
// The input may come from anybody. Decode does not panic, does not keep a
// reference to it, and is safe for use by several goroutines.
func Decode(header nats.Header, data []byte) (Event, error) {
	e, err := decode(header, data)
	if err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

func decode(header nats.Header, data []byte) (Event, error) {
	if size := messageSize(header, data); size > MaxMessage {
		return Event{}, fmt.Errorf("message of %d bytes is too large: at most %d", size, MaxMessage)
	}
	if !utf8.Valid(data) {
		return Event{}, errors.New("data is not UTF-8")
	}
	headers := foldHeader(header)
	var (
		a   attributes
		err error
	)
	switch mode, modeErr := contentModeOf(headers); {
	case modeErr != nil:
		return Event{}, modeErr
	case mode == Binary:
		a, err = readBinary(headers, data)
	default:
		a, err = readStructured(data)
	}
	if err != nil {
		return Event{}, err
	}
	e, err := a.event()
	if err != nil {
		return Event{}, err
	}
	e.TraceParent, e.TraceState = traceContext(headers[traceParentKey], headers[traceStateKey])
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = traceContext(a.traceParent, a.traceState)
	}
	return e, nil
}

func messageSize(header nats.Header, data []byte) int {
	size := len(data)
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// foldHeader brings the names to lower case. Of names that differ in nothing
// else, the one already in lower case wins, then the first in byte order, so
// that the result does not depend on the order of a map.
func foldHeader(header nats.Header) map[string]string {
	folded := make(map[string]string, len(header))
	origin := make(map[string]string, len(header))
	for name, values := range header {
		if len(values) == 0 {
			continue
		}
		lower := strings.ToLower(name)
		if former, ok := origin[lower]; ok && (former == lower || name != lower && former < name) {
			continue
		}
		origin[lower], folded[lower] = name, values[0]
	}
	return folded
}

// contentModeOf follows section 3 of the NATS binding, except that a message
// without any mark of either mode is structured: so sdk-go writes it.
func contentModeOf(headers map[string]string) (ContentMode, error) {
	media := mediaType(headers["content-type"])
	switch {
	case media == structuredType, media == "application/cloudevents":
		return Structured, nil
	case strings.HasPrefix(media, batchType):
		return "", errBatch
	case strings.HasPrefix(media, "application/cloudevents"):
		return "", fmt.Errorf("event format %s is not supported: want %s", quote(media), structuredType)
	case headers[headerPrefix+"specversion"] != "":
		return Binary, nil
	default:
		return Structured, nil
	}
}

var errBatch = errors.New("a batch of events is not supported: NATS has no batch mode, send each event as a message of its own")

func mediaType(value string) string {
	if value == "" {
		return ""
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil && media == "" {
		return strings.ToLower(strings.TrimSpace(value))
	}
	return media
}

// attributes are the parts of a CloudEvent that a reader of this contract
// looks at, before they are held against each other.
type attributes struct {
	specVersion     string
	id              string
	eventType       string
	source          string
	time            string
	dataContentType string
	epoch           string
	traceParent     string
	traceState      string
	data            []byte
}

func readBinary(headers map[string]string, data []byte) (attributes, error) {
	a := attributes{data: data}
	for _, attribute := range []struct {
		name string
		into *string
	}{
		{"specversion", &a.specVersion},
		{"id", &a.id},
		{"type", &a.eventType},
		{"source", &a.source},
		{"time", &a.time},
		{"datacontenttype", &a.dataContentType},
		{"epoch", &a.epoch},
		{traceParentKey, &a.traceParent},
		{traceStateKey, &a.traceState},
	} {
		value, err := decodeHeader(headers[headerPrefix+attribute.name])
		if err != nil {
			return attributes{}, fmt.Errorf("header %s%s %w", headerPrefix, attribute.name, err)
		}
		*attribute.into = value
	}
	if a.dataContentType == "" {
		// The HTTP binding's name for it, which bridges from HTTP keep.
		a.dataContentType = headers["content-type"]
	}
	return a, nil
}

func readStructured(data []byte) (attributes, error) {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '[' {
		return attributes{}, errBatch
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil || o == nil {
		return attributes{}, errors.New("message is neither a JSON object nor marked as a binary CloudEvent")
	}
	var a attributes
	for _, attribute := range []struct {
		name string
		into *string
	}{
		{"specversion", &a.specVersion},
		{"id", &a.id},
		{"type", &a.eventType},
		{"source", &a.source},
		{"time", &a.time},
		{"datacontenttype", &a.dataContentType},
		{traceParentKey, &a.traceParent},
		{traceStateKey, &a.traceState},
	} {
		if err := o.get(attribute.name, attribute.into); err != nil {
			return attributes{}, err
		}
	}
	// A number, or a string where the event came through a hop that lost the
	// types of extensions.
	if epoch := strings.Trim(string(o["epoch"]), `"`); epoch != "null" {
		a.epoch = epoch
	}
	return a, o.getData(&a.data)
}

// getData takes the data from either of its two members. Some writers put JSON
// into data_base64, which the JSON format allows.
func (o object) getData(into *[]byte) error {
	plain, isPlain := o["data"]
	var encoded *string
	if err := o.get("data_base64", &encoded); err != nil {
		return err
	}
	switch {
	case isPlain && encoded != nil:
		return errors.New("data and data_base64 are both there")
	case encoded != nil:
		decoded, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return fmt.Errorf("data_base64: %w", err)
		}
		if !utf8.Valid(decoded) {
			return errors.New("data_base64 is not UTF-8")
		}
		*into = decoded
	default:
		*into = plain
	}
	return nil
}

// event reads the data and holds the attributes against it.
func (a attributes) event() (Event, error) {
	if a.specVersion != specVersion {
		return Event{}, fmt.Errorf("specversion is %s: want %s", quote(a.specVersion), specVersion)
	}
	transition, err := parseType(a.eventType)
	if err != nil {
		return Event{}, err
	}
	if media := mediaType(a.dataContentType); media != "" && media != dataType {
		return Event{}, fmt.Errorf("datacontenttype is %s: want %s", quote(media), dataType)
	}
	e := Event{Transition: transition}
	if e.Time, err = time.Parse(time.RFC3339Nano, a.time); err != nil {
		return Event{}, fmt.Errorf("time %s is not a time by RFC 3339", quote(a.time))
	}
	e.Time = e.Time.UTC()
	if err := readPayload(a.data, &e); err != nil {
		return Event{}, err
	}
	if err := e.check(); err != nil {
		return Event{}, err
	}
	if want := e.ID(); a.id != want {
		return Event{}, fmt.Errorf("id is %s, but the data make it %s", quote(a.id), quote(want))
	}
	if want := e.Election.Source(); a.source != want {
		return Event{}, fmt.Errorf("source is %s, but the data make it %s", quote(a.source), quote(want))
	}
	if want := strconv.FormatUint(e.Epoch, 10); a.epoch != "" && a.epoch != want {
		return Event{}, fmt.Errorf("epoch is %s, but the data make it %s", quote(a.epoch), want)
	}
	return e, nil
}

func parseRevision(s string, into *uint64) error {
	if s == "" {
		return nil
	}
	revision, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("data: revision %s is not a decimal number of 64 bits", quote(s))
	}
	*into = revision
	return nil
}
