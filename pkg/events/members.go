package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// members writes the members of a JSON object. Package json writes the same
// bytes (TestEncodeIsWhatPackageJSONWrites) but takes three times as long, and a
// thousand Leases may change hands at once.
type members struct {
	b     []byte
	first int // where the object begins
}

// beginObject appends an object to b, whose end its caller must write.
func beginObject(b []byte) members { return members{append(b, '{'), len(b)} }

func (m *members) end() []byte { return append(m.b, '}') }

// name begins a member. Names are ours, and plain.
func (m *members) name(name string) {
	if len(m.b) > m.first+1 {
		m.b = append(m.b, ',')
	}
	m.b = append(m.b, '"')
	m.b = append(m.b, name...)
	m.b = append(m.b, '"', ':')
}

// raw takes a value that is JSON.
func (m *members) raw(name, value string) {
	m.name(name)
	m.b = append(m.b, value...)
}

func (m *members) number(name string, value uint64) {
	m.name(name)
	m.b = strconv.AppendUint(m.b, value, 10)
}

func (m *members) time(name string, value time.Time) {
	m.name(name)
	m.b = append(m.b, '"')
	m.b = value.UTC().AppendFormat(m.b, time.RFC3339Nano)
	m.b = append(m.b, '"')
}

func (m *members) text(name, value string) {
	m.name(name)
	if !isPlain(value) {
		m.b = append(m.b, escaped(value)...)
		return
	}
	m.b = append(m.b, '"')
	m.b = append(m.b, value...)
	m.b = append(m.b, '"')
}

// isPlain holds for texts that stand for themselves between quotes.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// escaped is a text as JSON, without the escapes that only HTML needs.
func escaped(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`) // every string can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
