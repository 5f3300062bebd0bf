package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// object is a JSON object whose members have not been looked at. Its names are
// matched exactly: encoding/json would fill a struct's "epoch" from "Epoch"
// too, and so read another event than everybody else. A map of them would take
// it most of the time of Decode.
type object []member

type member struct {
	name  []byte
	value []byte // JSON without space around it
}

// membersHint is room for all members that this version writes.
const membersHint = 20

var errNoObject = errors.New("not a JSON object")

// parseObject checks JSON and splits it. The values alias data.
func parseObject(data []byte) (object, error) {
	o := make(object, 0, membersHint)
	if n := plainObject(data, &o, plainDepth); n > 0 && n == len(data) {
		return o, nil
	}
	if !json.Valid(data) {
		return nil, errNoObject
	}
	return splitObject(data)
}

// splitObject is parseObject for JSON that is known to be valid: it has to find
// where values end, and nothing else.
func splitObject(data []byte) (object, error) {
	rest := skipSpace(data)
	if len(rest) == 0 || rest[0] != '{' {
		return nil, errNoObject
	}
	o := make(object, 0, membersHint)
	for rest = skipSpace(rest[1:]); rest[0] != '}'; rest = skipSpace(rest) {
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		n := valueEnd(rest)
		name, err := memberName(rest[:n])
		if err != nil {
			return nil, err
		}
		rest = skipSpace(skipSpace(rest[n:])[1:]) // the colon
		n = valueEnd(rest)
		o = append(o, member{name, rest[:n:n]})
		rest = rest[n:]
	}
	return o, nil
}

func memberName(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var name string
	err := json.Unmarshal(quoted, &name)
	return []byte(name), err
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueEnd returns the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or a word before the end of its object
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// value returns a member's JSON, and nil if there is none: of several with one
// name the last, as in encoding/json.
func (o object) value(name string) []byte {
	for _, m := range slices.Backward(o) {
		if string(m.name) == name {
			return m.value
		}
	}
	return nil
}

// get stores the member called name in into. A member that is absent or null
// leaves it alone.
func (o object) get(name string, into any) error {
	raw := o.value(name)
	if raw == nil || string(raw) == "null" || readPlain(raw, into) {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		// The cause would quote the value in full, however long it is.
		return fmt.Errorf("%s is %s, which has the wrong type or range", name, quote(string(raw)))
	}
	return nil
}

// require is get for a member that has to be there.
func (o object) require(name string, into any) error {
	if raw := o.value(name); raw == nil || string(raw) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	return o.get(name, into)
}

// readPlain stores what nearly every member is: a string without escapes, a
// plain number, or a time. It returns false for all else, which package json
// reads or refuses; asking it for each member took most of the time of Decode.
// raw is a JSON value in UTF-8 that package json has accepted.
func readPlain(raw []byte, into any) bool {
	switch into := into.(type) {
	case *string:
		return plainString(raw, into)
	case *Reason:
		return plainString(raw, into)
	case *Perspective:
		return plainString(raw, into)
	case *uint64:
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err == nil {
			*into = n
		}
		return err == nil
	case **int:
		n, err := strconv.Atoi(string(raw))
		if err == nil {
			*into = &n
		}
		return err == nil
	case **int64:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err == nil {
			*into = &n
		}
		return err == nil
	case *time.Time:
		return into.UnmarshalJSON(raw) == nil
	default:
		return false
	}
}

func plainString[T ~string](raw []byte, into *T) bool {
	if raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return false
	}
	*into = T(raw[1 : len(raw)-1])
	return true
}
