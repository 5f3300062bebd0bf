package events

import (
	"fmt"
	"strings"
)

// The lengths that Kubernetes allows.
const (
	maxLabel     = 63
	maxSubdomain = 253
	maxPrefix    = 128
)

// ValidatePrefix tells whether a subject prefix is usable: one or several
// tokens of letters, digits, "-" and "_", joined by dots, each beginning with a
// letter or digit, 128 characters at most. That leaves out wildcards, white
// space and the subjects that NATS keeps for itself ($JS, _INBOX).
func ValidatePrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("subject prefix of %d characters is too long: at most %d", len(prefix), maxPrefix)
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if !isPrefixToken(token) {
			return fmt.Errorf("subject prefix %s is not usable: its tokens consist of a-z, A-Z, 0-9, '-' and '_', begin with a letter or digit and are joined by single dots", quote(prefix))
		}
	}
	return nil
}

func isPrefixToken(token string) bool {
	for i, c := range []byte(token) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case (c == '-' || c == '_') && i > 0:
		default:
			return false
		}
	}
	return token != ""
}

func validateLabel(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: it needs a name", what)
	case len(name) > maxLabel:
		return fmt.Errorf("%s of %d characters is too long: at most %d", what, len(name), maxLabel)
	case !isLabel(name):
		return fmt.Errorf("%s %s is not a legal name: it consists of a-z, 0-9 and '-', and begins and ends with a letter or digit", what, quote(name))
	}
	return nil
}

func validateSubdomain(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: it needs a name", what)
	case len(name) > maxSubdomain:
		return fmt.Errorf("%s of %d characters is too long: at most %d", what, len(name), maxSubdomain)
	}
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return fmt.Errorf("%s %s is not a legal name: its parts consist of a-z, 0-9 and '-', begin and end with a letter or digit, and are joined by single dots", what, quote(name))
		}
	}
	return nil
}

// isLabel reports whether s matches [a-z0-9]([-a-z0-9]*[a-z0-9])?.
func isLabel(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}

// quote makes untrusted text fit for a one-line message.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
