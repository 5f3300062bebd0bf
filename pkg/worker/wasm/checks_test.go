package wasm

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
)

func TestAddChecksChangesNothingElse(t *testing.T) {
	out, err := addChecks(guest)
	if err != nil {
		t.Fatal(err)
	}
	rt := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(t.Context())
	before, err := rt.CompileModule(t.Context(), recursing())
	if err != nil {
		t.Fatal(err)
	}
	small, err := addChecks(recursing())
	if err != nil {
		t.Fatal(err)
	}
	after, err := rt.CompileModule(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	if len(before.ExportedFunctions()) != len(after.ExportedFunctions()) {
		t.Error("the exports have changed")
	}
	const loop = "\x03\x40\x0b"
	if n := bytes.Count(small, []byte(loop)); n != 2 || len(small) != len(recursing())+2*len(loop) {
		t.Errorf("%d checks in 2 functions, %d bytes from %d", n, len(small), len(recursing()))
	}
	if len(out) <= len(guest) {
		t.Error("a large module got no checks")
	}
}

func FuzzAddChecks(f *testing.F) {
	f.Add(recursing())
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x0a\x04\x01\x02\x00\x0b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := addChecks(b)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Errorf("%x: %v", b, err)
			}
			return
		}
		// What could be taken apart once can be again.
		if _, err := addChecks(out); err != nil {
			t.Errorf("%x became %x: %v", b, out, err)
		}
	})
}
