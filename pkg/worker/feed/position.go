package feed

import (
	"encoding/json"
	"fmt"

	"github.com/leaderbridge/leaderbridge/pkg/events"
)

// position is how far a role has come. The zero position is that of a role
// that has handled nothing.
type position struct {
	// Epoch is that of the worker who wrote it.
	Epoch uint64 `json:"epoch"`
	// Seq and ID are those of the last event that was handled. A sequence alone
	// would not tell that the log was made anew.
	Seq uint64 `json:"seq"`
	ID  string `json:"id"`
	// Pending is true for an event that is still to be handled: the one that the
	// role begins with. Without it a role whose first worker died early would
	// begin once more, with what is the last event then.
	Pending bool `json:"pending,omitempty"`
}

// parse reads a stored position.
func parse(value []byte) (position, error) {
	var p position
	if err := json.Unmarshal(value, &p); err != nil || p.Seq == 0 || p.ID == "" {
		return position{}, fmt.Errorf("%.100q is no position; delete the key to begin with the last event", value)
	}
	return p, nil
}

// within tells whether a log that ends with the sequence last may be the one
// that the position is about.
func (p position) within(last uint64) bool { return p.Seq > 0 && p.Seq <= last }

// step is what to do with an event.
type step int

const (
	handle step = iota
	// skip: it was handled, or is no event.
	skip
	// again: the log is not the one that the position is about.
	again
)

// next decides about an event, which is the first after start or follows one
// that was handled.
func (p position) next(e events.Entry) step {
	switch {
	case e.Err != nil:
		return skip // no event
	case e.Event.ID() == p.ID && p.Pending:
		return handle
	case e.Event.ID() == p.ID:
		return skip
	case e.Seq == p.Seq:
		return again
	}
	return handle
}
