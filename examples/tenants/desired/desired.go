// Package desired says which consumers there should be, and what is to be done
// so that there are: functions of what they are given, and of nothing else. The
// controllers of this example, one in Go and one in WebAssembly, share it.
package desired

import (
	"maps"
	"slices"
	"strings"
)

// Tenant is what is set for one tenant.
type Tenant struct {
	// MaxAckPending is how many orders a tenant may work on at a time.
	MaxAckPending int `json:"maxAckPending,omitempty"`
}

// Consumer is a durable consumer on the stream of orders.
type Consumer struct {
	Name          string `json:"name"`
	Filter        string `json:"filter"`
	MaxAckPending int    `json:"maxAckPending"`
}

// prefix begins the names of the consumers that belong to the controller. It
// leaves all others alone.
const prefix = "tenant-"

// Owned tells whether a consumer belongs to the controller.
func Owned(name string) bool { return strings.HasPrefix(name, prefix) }

// Consumers returns the consumers that the tenants should have, by name.
func Consumers(tenants map[string]Tenant) []Consumer {
	var all []Consumer
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		pending := tenants[name].MaxAckPending
		if pending <= 0 {
			pending = 100
		}
		all = append(all, Consumer{Name: prefix + name, Filter: "orders." + name + ".>", MaxAckPending: pending})
	}
	return all
}

// Diff returns which consumers are to be made or changed, and which to be
// deleted, in order.
func Diff(want, have []Consumer) (put []Consumer, drop []string) {
	for _, c := range want {
		if !slices.Contains(have, c) {
			put = append(put, c)
		}
	}
	for _, c := range have {
		if Owned(c.Name) && !slices.ContainsFunc(want, func(w Consumer) bool { return w.Name == c.Name }) {
			drop = append(drop, c.Name)
		}
	}
	return put, drop
}
