package watcher

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Selection says which Leases are watched. At least one of Leases, Namespaces
// and All must be set.
type Selection struct {
	// Leases are single ones, as namespace/name.
	Leases []string
	// Namespaces are watched whole.
	Namespaces []string
	// All is every namespace.
	All bool
	// Selector is a label selector that Leases must match, unless empty.
	Selector string
	// Include and Exclude are patterns for namespace/name, in the manner of
	// path.Match: "*" does not match "/". A Lease must match one of Include,
	// if there are any, and none of Exclude.
	Include, Exclude []string
}

// Validate returns what is wrong, in one line.
func (s Selection) Validate() error {
	if len(s.Leases) == 0 && len(s.Namespaces) == 0 && !s.All {
		return fmt.Errorf("nothing to watch: name Leases (namespace/name), --namespace or --all-namespaces")
	}
	if s.All && (len(s.Leases) > 0 || len(s.Namespaces) > 0) {
		return fmt.Errorf("--all-namespaces covers everything: leave out the Leases and namespaces")
	}
	for _, l := range s.Leases {
		ns, name, ok := strings.Cut(l, "/")
		if !ok || ns == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("lease %q: want namespace/name", l)
		}
	}
	if _, err := labels.Parse(s.Selector); err != nil {
		return fmt.Errorf("--selector %q: %w", s.Selector, err)
	}
	for _, p := range append(s.Include, s.Exclude...) {
		if _, err := path.Match(p, "a/b"); err != nil || !strings.Contains(p, "/") {
			return fmt.Errorf("pattern %q: want namespace/name, where * stands for any text without a slash", p)
		}
	}
	return nil
}

// scope is one list-and-watch: a namespace (empty for all) and, for a single
// Lease, its name.
type scope struct{ namespace, name string }

func (s Selection) scopes() []scope {
	if s.All {
		return []scope{{}}
	}
	var all []scope
	whole := map[string]bool{}
	for _, ns := range s.Namespaces {
		if !whole[ns] {
			whole[ns] = true
			all = append(all, scope{namespace: ns})
		}
	}
	seen := map[string]bool{}
	for _, l := range s.Leases {
		ns, name, _ := strings.Cut(l, "/")
		if !whole[ns] && !seen[l] {
			seen[l] = true
			all = append(all, scope{namespace: ns, name: name})
		}
	}
	return all
}

// wants reports whether a Lease within the scopes is to be watched.
func (s Selection) wants(namespace, name string) bool {
	full := namespace + "/" + name
	match := func(patterns []string) bool {
		for _, p := range patterns {
			if ok, _ := path.Match(p, full); ok {
				return true
			}
		}
		return false
	}
	return (len(s.Include) == 0 || match(s.Include)) && !match(s.Exclude)
}
