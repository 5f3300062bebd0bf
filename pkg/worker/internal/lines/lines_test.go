package lines

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What commands and modules do with it is tested in their packages.

func TestBufferRefusesWhatIsTooMuch(t *testing.T) {
	b := Buffer{Most: 4}
	if n, err := b.Write([]byte("1234")); n != 4 || err != nil || b.Full {
		t.Errorf("write up to the limit = %d, %v, full %v", n, err, b.Full)
	}
	if n, err := b.Write([]byte("5")); n != 0 || !errors.Is(err, ErrFull) || !b.Full {
		t.Errorf("write above the limit = %d, %v, full %v", n, err, b.Full)
	}
}

func FuzzIsCloudEvent(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"x","source":"/a","type":"b"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"x","source":"/a","type":"b","data_base64":"eA==","time":"2026-01-01T00:00:00Z","n":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if isCloudEvent(b) == nil && !bytes.Contains(b, []byte("specversion")) {
			// Keys may be written with escapes, so this only catches nonsense.
			var m map[string]any
			if json.Unmarshal(b, &m) != nil || m["specversion"] == nil {
				t.Errorf("%q passes as an event", b)
			}
		}
	})
}
