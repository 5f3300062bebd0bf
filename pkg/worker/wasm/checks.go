package wasm

import (
	"encoding/binary"
	"errors"
	"math"
)

// addChecks returns the module with an empty loop at the beginning of every
// function.
//
// The runtime looks at the head of each loop, and only there, whether the
// module is to be stopped. Code that recurses without a loop is never stopped
// then: it was measured to run for its full 17 s past a deadline of 0.3 s, all
// the while holding up Go's garbage collector and with it the whole worker.
// With an empty loop in each function, every call passes a head of a loop.
//
// The module's format is that of the WebAssembly core specification, 5.5; what
// does not look like it is an error. What looks like it is not checked
// further, since the compiler does so.
func addChecks(module []byte) ([]byte, error) {
	const header = 8 // magic and version
	if len(module) < header {
		return nil, errMalformed
	}
	out := append(make([]byte, 0, len(module)+len(module)/16), module[:header]...)
	for r := (reader{module[header:]}); len(r.b) > 0; {
		id, err := r.byte()
		if err != nil {
			return nil, err
		}
		content, err := r.block()
		if err != nil {
			return nil, err
		}
		const codeSection = 10
		if id == codeSection {
			if content, err = addToCode(content); err != nil {
				return nil, err
			}
		}
		out = appendBlock(append(out, id), content)
	}
	return out, nil
}

func addToCode(section []byte) ([]byte, error) {
	r := reader{section}
	functions, err := r.u32()
	if err != nil {
		return nil, err
	}
	out := binary.AppendUvarint(nil, uint64(functions))
	for range functions {
		code, err := r.block()
		if err != nil {
			return nil, err
		}
		body := reader{code}
		groups, err := body.u32()
		if err != nil {
			return nil, err
		}
		for range groups { // of local variables: how many, and their type
			if _, err := body.u32(); err != nil {
				return nil, err
			}
			if _, err := body.byte(); err != nil {
				return nil, err
			}
		}
		locals := code[:len(code)-len(body.b)]
		const loop, noResult, end = 0x03, 0x40, 0x0b
		checked := append(append([]byte{}, locals...), loop, noResult, end)
		out = appendBlock(out, append(checked, body.b...))
	}
	if len(r.b) > 0 {
		return nil, errMalformed
	}
	return out, nil
}

var errMalformed = errors.New("malformed WebAssembly module")

// reader takes a binary module apart.
type reader struct{ b []byte }

func (r *reader) byte() (byte, error) {
	if len(r.b) == 0 {
		return 0, errMalformed
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b, nil
}

func (r *reader) u32() (uint32, error) {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > math.MaxUint32 {
		return 0, errMalformed
	}
	r.b = r.b[n:]
	return uint32(v), nil
}

// block reads a vector of bytes: its length, and so many bytes.
func (r *reader) block() ([]byte, error) {
	n, err := r.u32()
	if err != nil || uint64(n) > uint64(len(r.b)) {
		return nil, errMalformed
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b, nil
}

func appendBlock(to, content []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(content))), content...)
}
