package events

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// What is split is what package json splits, member for member. Names are bytes
// of the message, which is UTF-8.
func FuzzSplitObject(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":1,"a":2}`, "{\"a\"\t:\n1\r, \"b\" : [1,{\"c\":\"]}\"}]}",
		`{"a":"\\","b":"\"","c":{"d":[]}}`, `{"\u0061":true,"b":-1.5e3,"":null}`, `[]`, `"x"`, `null`, `{"a":}`, `{"a":1,}`, `{"a":01}`, `{"a":-}`, `{"a":-0}`, `{"a":1.5}`, `{"a":{}}`, `{"a":{"b":{"c":12}}}`, `{"a":{"b":2}`, `{,}`, `{"a":1}x`, `{"a":"`, `{"a" 1}`, `{"a":1`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			t.Skip("Decode refuses it before")
		}
		var want map[string]json.RawMessage
		wanted := json.Unmarshal(data, &want) == nil && want != nil
		o, err := parseObject(data)
		if (err == nil) != wanted {
			t.Fatalf("%q: %v, but package json has %v", data, err, want)
		}
		names := map[string]bool{}
		for _, m := range o {
			name := string(m.name)
			names[name] = true
			if got := o.value(name); !bytes.Equal(got, want[name]) {
				t.Errorf("%q: member %q is %q, but package json has %q", data, name, got, want[name])
			}
		}
		if len(names) != len(want) {
			t.Errorf("%q: %d members, but package json has %d", data, len(names), len(want))
		}
	})
}
