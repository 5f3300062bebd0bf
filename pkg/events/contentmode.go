package events

import (
	"errors"
	"fmt"
	"mime"
	"strings"

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

func messageSize(header nats.Header, data []byte) int {
	size := len(data)
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// headerOf returns a header's value. Its name is matched without regard to case.
// Of names that differ in nothing else, the one in lower case wins, then the
// first in byte order, so that the result does not depend on the order of a map.
func headerOf(header nats.Header, lower string) string {
	if values := header[lower]; len(values) > 0 {
		return values[0]
	}
	var found, value string
	for name, values := range header {
		if len(name) == len(lower) && len(values) > 0 && strings.EqualFold(name, lower) && (found == "" || name < found) {
			found, value = name, values[0]
		}
	}
	return value
}

// contentModeOf follows section 3 of the NATS binding, except that a message
// without any mark of either mode is structured: so sdk-go writes it.
func contentModeOf(header nats.Header) (ContentMode, error) {
	media := mediaType(headerOf(header, "content-type"))
	switch {
	case media == structuredType, media == "application/cloudevents":
		return Structured, nil
	case strings.HasPrefix(media, batchType):
		return "", errBatch
	case strings.HasPrefix(media, "application/cloudevents"):
		return "", fmt.Errorf("event format %s is not supported: want %s", quote(media), structuredType)
	case headerOf(header, headerPrefix+"specversion") != "":
		return Binary, nil
	default:
		return Structured, nil
	}
}

var errBatch = errors.New("a batch of events is not supported: NATS has no batch mode, send each event as a message of its own")

func mediaType(value string) string {
	switch value {
	case "", dataType, structuredType: // as we write them
		return value
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil && media == "" {
		return strings.ToLower(strings.TrimSpace(value))
	}
	return media
}
