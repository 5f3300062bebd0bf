package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

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
	var (
		a   attributes
		err error
	)
	switch mode, modeErr := contentModeOf(header); {
	case modeErr != nil:
		return Event{}, modeErr
	case mode == Binary:
		a, err = readBinary(header, data)
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
	e.TraceParent, e.TraceState = traceContext(headerOf(header, traceParentKey), headerOf(header, traceStateKey))
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = traceContext(a.traceParent, a.traceState)
	}
	return e, nil
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

func readBinary(header nats.Header, data []byte) (attributes, error) {
	if !json.Valid(data) {
		return attributes{}, fmt.Errorf("data is %w", errNoObject)
	}
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
	} {
		value, err := decodeHeader(headerOf(header, headerPrefix+attribute.name))
		if err != nil {
			return attributes{}, fmt.Errorf("header %s%s %w", headerPrefix, attribute.name, err)
		}
		*attribute.into = value
	}
	// An unreadable trace context is an absent one, see traceContext.
	a.traceParent, _ = decodeHeader(headerOf(header, headerPrefix+traceParentKey))
	a.traceState, _ = decodeHeader(headerOf(header, headerPrefix+traceStateKey))
	if a.dataContentType == "" {
		// The HTTP binding's name for it, which bridges from HTTP keep.
		a.dataContentType = headerOf(header, "content-type")
	}
	return a, nil
}

func readStructured(data []byte) (attributes, error) {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '[' {
		return attributes{}, errBatch
	}
	o, err := parseObject(data)
	if err != nil {
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
	} {
		if err := o.get(attribute.name, attribute.into); err != nil {
			return attributes{}, err
		}
	}
	// An unreadable trace context is an absent one, see traceContext.
	_ = o.get(traceParentKey, &a.traceParent)
	_ = o.get(traceStateKey, &a.traceState)
	// A number, or a string where the event came through a hop that lost the
	// types of extensions.
	if epoch := strings.Trim(string(o.value("epoch")), `"`); epoch != "null" {
		a.epoch = epoch
	}
	return a, o.getData(&a.data)
}

// getData takes the data from either of its two members. Some writers put JSON
// into data_base64, which the JSON format allows.
func (o object) getData(into *[]byte) error {
	plain := o.value("data")
	var encoded *string
	if err := o.get("data_base64", &encoded); err != nil {
		return err
	}
	switch {
	case plain != nil && encoded != nil:
		return errors.New("data and data_base64 are both there")
	case encoded != nil:
		decoded, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			return fmt.Errorf("data_base64: %w", err)
		}
		if !utf8.Valid(decoded) || !json.Valid(decoded) {
			return errors.New("data_base64 is not JSON in UTF-8")
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
	if err := e.Time.UnmarshalText([]byte(a.time)); err != nil {
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
