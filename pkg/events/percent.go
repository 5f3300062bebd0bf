package events

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// encodeSubject writes an identity as the CloudEvents subject: every byte
// outside A-Z a-z 0-9 - . _ ~ (the unreserved characters of RFC 3986) as %XX.
// That is what encodeURIComponent (JavaScript) and quote(s, safe="") (Python)
// undo, and it leaves nothing that a header, a label or a terminal would mangle.
func encodeSubject(identity string) string {
	return percentEncode(identity, func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '-' || c == '.' || c == '_' || c == '~'
	})
}

// encodeHeader writes an attribute as a header value, by the NATS binding of
// CloudEvents, section 3.1.3.2: space, double quote, percent and all that is
// not printable ASCII as %XX.
func encodeHeader(value string) string {
	return percentEncode(value, func(c byte) bool {
		return '!' <= c && c <= '~' && c != '"' && c != '%'
	})
}

func percentEncode(s string, plain func(byte) bool) string {
	const digits = "0123456789ABCDEF"
	escapes := 0
	for i := range len(s) {
		if !plain(s[i]) {
			escapes++
		}
	}
	if escapes == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2*escapes)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// decodeHeader reads a header value by the same section: quotes of older
// writers are taken off, then one round of percent-decoding is done. A percent
// sign that introduces no two hexadecimal digits stands for itself, because
// some writers encode nothing (cloudevents/sdk-go#1334). What is not UTF-8
// after that is refused, as the binding demands.
func decodeHeader(value string) (string, error) {
	value = unquoteHeader(strings.TrimSpace(value))
	if strings.Contains(value, "%") {
		var b strings.Builder
		b.Grow(len(value))
		for i := 0; i < len(value); i++ {
			if value[i] == '%' && i+2 < len(value) && isHex(value[i+1]) && isHex(value[i+2]) {
				b.WriteByte(unhex(value[i+1])<<4 | unhex(value[i+2]))
				i += 2
				continue
			}
			b.WriteByte(value[i])
		}
		value = b.String()
	}
	if !utf8.ValidString(value) {
		return "", errors.New("is not UTF-8 after percent-decoding")
	}
	return value, nil
}

// unquoteHeader takes off the quotes and backslashes of a quoted-string of
// RFC 7230, section 3.2.6.
func unquoteHeader(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	value = value[1 : len(value)-1]
	if !strings.Contains(value, `\`) {
		return value
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}
