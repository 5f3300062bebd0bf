package events

import (
	"fmt"
	"net/url"
	"strings"
)

// DefaultPrefix is the first token of every subject unless another is set.
const DefaultPrefix = "leaderbridge"

// eventToken separates the prefix from the names in a subject of the log.
const eventToken = "event"

// String returns namespace/lease, the form that Kubernetes users know.
func (e Election) String() string { return e.Namespace + "/" + e.Lease }

// Validate tells whether the three names are legal: cluster and namespace are
// DNS labels, the lease a DNS subdomain, as RFC 1123 has them and Kubernetes
// enforces them. The error is one line and names the first name that is not.
// Every other method of Election expects names that are legal.
func (e Election) Validate() error {
	if err := validateLabel("cluster", e.Cluster); err != nil {
		return err
	}
	if err := validateLabel("namespace", e.Namespace); err != nil {
		return err
	}
	return validateSubdomain("lease", e.Lease)
}

// Source returns the CloudEvents source of the election's events, a path of
// percent-encoded segments.
func (e Election) Source() string {
	return "/clusters/" + url.PathEscape(e.Cluster) +
		"/namespaces/" + url.PathEscape(e.Namespace) +
		"/leases/" + url.PathEscape(e.Lease)
}

// KVKey returns the election's key in the leaders' bucket, which is also the
// part of its subjects that names it: <cluster>.<namespace>.<lease>, with the
// dots of the lease's name written "_". It is reversible, see [ParseKVKey],
// because a legal name has no "_".
func (e Election) KVKey() string {
	return e.Cluster + "." + e.Namespace + "." + strings.ReplaceAll(e.Lease, ".", "_")
}

// Subject returns the subject on which the log stores the election's events of
// one kind: <prefix>.event.<cluster>.<namespace>.<lease>.<transition>.
func (e Election) Subject(prefix string, t Transition) string {
	return prefix + "." + eventToken + "." + e.KVKey() + "." + string(t)
}

// Filter returns the subject filter that matches the election's events of
// every kind, and no others.
func (e Election) Filter(prefix string) string {
	return prefix + "." + eventToken + "." + e.KVKey() + ".*"
}

// ParseSubject reads a subject that [Election.Subject] wrote with this prefix.
// It accepts no other: what it returns leads back to the same subject.
func ParseSubject(prefix, subject string) (Election, Transition, error) {
	rest, ok := strings.CutPrefix(subject, prefix+"."+eventToken+".")
	if !ok {
		return Election{}, "", fmt.Errorf("subject %s: does not begin with %s", quote(subject), quote(prefix+"."+eventToken+"."))
	}
	key, last, ok := cutLast(rest, ".")
	if !ok {
		return Election{}, "", fmt.Errorf("subject %s: want <prefix>.event.<cluster>.<namespace>.<lease>.<transition>", quote(subject))
	}
	election, err := parseKey(key)
	if err != nil {
		return Election{}, "", fmt.Errorf("subject %s: %w", quote(subject), err)
	}
	transition := Transition(last)
	if !transition.known() {
		return Election{}, "", fmt.Errorf("subject %s: %s is no transition", quote(subject), quote(last))
	}
	return election, transition, nil
}

// ParseKVKey reads a key that [Election.KVKey] wrote. It accepts no other.
func ParseKVKey(key string) (Election, error) {
	election, err := parseKey(key)
	if err != nil {
		return Election{}, fmt.Errorf("key %s: %w", quote(key), err)
	}
	return election, nil
}

func parseKey(key string) (Election, error) {
	// A fourth part is enough to see that there are too many.
	parts := strings.SplitN(key, ".", 4)
	if len(parts) != 3 {
		return Election{}, fmt.Errorf("want <cluster>.<namespace>.<lease>")
	}
	election := Election{
		Cluster:   parts[0],
		Namespace: parts[1],
		Lease:     strings.ReplaceAll(parts[2], "_", "."),
	}
	return election, election.Validate()
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
