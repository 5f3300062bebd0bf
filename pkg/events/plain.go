package events

// Nearly every event consists of plain JSON only: without space, escapes and
// arrays, and with whole numbers. To see that it does, and to split it, takes a
// fraction of the time that package json needs to check it. The rest is left to
// package json.

// plainDepth is how deep objects are nested in what counts as plain: an event
// and its data.
const plainDepth = 2

// plainObject returns the length of the plain object that b begins with, and
// zero if there is none. Its members are added to into, unless that is nil.
func plainObject(b []byte, into *object, depth int) int {
	if len(b) < 2 || b[0] != '{' || depth == 0 {
		return 0
	}
	if b[1] == '}' {
		return 2
	}
	for n := 1; ; n++ {
		name := plainText(b[n:])
		value := n + name + 1
		if name == 0 || value >= len(b) || b[value-1] != ':' {
			return 0
		}
		length := plainValue(b[value:], depth-1)
		end := value + length
		if length == 0 || end == len(b) {
			return 0
		}
		if into != nil {
			*into = append(*into, member{b[n+1 : n+name-1], b[value:end:end]})
		}
		switch n = end; b[n] {
		case ',':
		case '}':
			return n + 1
		default:
			return 0
		}
	}
}

func plainValue(b []byte, depth int) int {
	switch b[0] {
	case '"':
		return plainText(b)
	case '{':
		return plainObject(b, nil, depth)
	default:
		return wholeNumber(b)
	}
}

// plainText returns the length of the string that b begins with, with its
// quotes, if it has no escapes.
func plainText(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for n := 1; n < len(b); n++ {
		switch c := b[n]; {
		case c == '"':
			return n + 1
		case c == '\\' || c < ' ':
			return 0
		}
	}
	return 0
}

// wholeNumber returns the length of the number without fraction and exponent
// that b begins with.
func wholeNumber(b []byte) int {
	n := 0
	if b[0] == '-' {
		n++
	}
	first := n
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	if n == first || b[first] == '0' && n > first+1 {
		return 0
	}
	return n // what cannot follow it, such as a fraction, is no end of a member
}
