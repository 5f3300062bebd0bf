package natsconn

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var schemes = []string{"nats", "tls", "ws", "wss"}

// parseURLs reads lists of servers. A fault never quotes what may be a
// password.
func parseURLs(lists []string) (urls []*url.URL, f faults) {
	for _, list := range lists {
		for raw := range strings.SplitSeq(list, ",") {
			raw = strings.TrimSpace(raw)
			if raw == "" {
				continue
			}
			u, err := parseURL(raw)
			if err != nil {
				f.add("--nats-url %q: %v", redact(raw), err)
				continue
			}
			urls = append(urls, u)
		}
	}
	if len(lists) > 0 && len(urls) == 0 && len(f) == 0 {
		f.add("--nats-url: names no server")
	}
	web := func(u *url.URL) bool { return u.Scheme == "ws" || u.Scheme == "wss" }
	if slices.ContainsFunc(urls, web) && slices.ContainsFunc(urls, func(u *url.URL) bool { return !web(u) }) {
		f.add("--nats-url: WebSocket servers (ws, wss) cannot be mixed with others (nats, tls)")
	}
	return urls, f
}

func parseURL(raw string) (*url.URL, error) {
	full := raw
	if !strings.Contains(raw, "://") {
		full = "nats://" + raw
	}
	u, err := url.Parse(full)
	if err != nil {
		// The parser's message may quote a piece of a password.
		return nil, fmt.Errorf("is not a URL such as nats://host:4222%s", hint(raw))
	}
	if !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("scheme must be one of %s", strings.Join(schemes, ", "))
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("names no host%s", hint(raw))
	}
	if strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return nil, fmt.Errorf("an IPv6 address needs brackets, as in nats://[::1]:4222")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("port must be 1 to 65535")
		}
	}
	if web := u.Scheme == "ws" || u.Scheme == "wss"; !web && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		return nil, fmt.Errorf("must end after the host and port%s", hint(raw))
	}
	return u, nil
}

// hint explains the usual reason why a URL with a password does not parse.
func hint(raw string) string {
	if !strings.Contains(raw, "@") {
		return ""
	}
	return " (in a user name or password, write the characters / ? # @ : % as %XX)"
}

// redact returns the URL without user name and password, whether or not it
// can be parsed: all up to the last @ may be part of them, and so may what
// looks like a scheme but is none.
func redact(raw string) string {
	at := strings.LastIndex(raw, "@")
	if at < 0 {
		return raw
	}
	for _, scheme := range schemes {
		if prefix := scheme + "://"; strings.HasPrefix(raw, prefix) {
			return prefix + "xxxxx" + raw[at:]
		}
	}
	return "xxxxx" + raw[at:]
}
