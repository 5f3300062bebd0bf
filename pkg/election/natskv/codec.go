package natskv

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/pkg/election/internal/core"
)

// foreignUID stands for the uid of a record whose writer gave it none. The
// first update through this package makes it permanent.
const foreignUID = "unnamed"

// microseconds is RFC 3339, as precise as a Lease.
const microseconds = "2006-01-02T15:04:05.000000Z07:00"

// value is the JSON form of a record. The first seven names are those of
// client-go's LeaderElectionRecord.
type value struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string `json:"acquireTime,omitempty"`
	RenewTime            string `json:"renewTime,omitempty"`
	LeaderTransitions    *int   `json:"leaderTransitions,omitempty"`
	Strategy             string `json:"strategy,omitempty"`
	PreferredHolder      string `json:"preferredHolder,omitempty"`
	UID                  string `json:"uid"`
	Epoch                uint64 `json:"epoch,omitempty"`
	EpochAcquired        string `json:"epochAcquired,omitempty"`
	Preferred            string `json:"preferred,omitempty"`
}

func encode(r election.Record, uid string) ([]byte, error) {
	if err := r.Storable(); err != nil {
		return nil, err
	}
	v := value{
		HolderIdentity:       r.Holder,
		LeaseDurationSeconds: int(r.Duration / time.Second),
		AcquireTime:          formatTime(r.Acquired),
		RenewTime:            formatTime(r.Renewed),
		Strategy:             r.Strategy,
		PreferredHolder:      r.PreferredHolder,
		UID:                  uid,
		Epoch:                r.Epoch,
		Preferred:            r.Preferred,
	}
	if r.HasTransitions {
		v.LeaderTransitions = &r.Transitions
	}
	if r.Epoch > 0 {
		v.EpochAcquired = formatTime(r.EpochAcquired)
	}
	return json.Marshal(v)
}

func formatTime(t time.Time) string {
	if t = core.StoredTime(t); t.IsZero() {
		return ""
	}
	return t.Format(microseconds)
}

// decode reads a record that anything may have written. An optional field that
// makes no sense counts as absent. A value that is no record at all, or has a
// holder that is no string, is an error: taking it for a free lock would
// depose whoever wrote it.
func decode(data []byte) (election.Record, string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return election.Record{}, "", fmt.Errorf("the key holds no election record: %w: delete the key if it was not meant for an election", err)
	}
	if fields == nil {
		return election.Record{}, "", errors.New("the key holds no election record but null: delete the key if it was not meant for an election")
	}
	var r election.Record
	if raw, ok := fields["holderIdentity"]; ok {
		if err := json.Unmarshal(raw, &r.Holder); err != nil {
			return election.Record{}, "", fmt.Errorf("the record's holderIdentity cannot be read: %w: delete the key if it was not meant for an election", err)
		}
	}
	if n, ok := optional[int64](fields, "leaseDurationSeconds"); ok && n > 0 && n <= math.MaxInt32 {
		r.Duration = time.Duration(n) * time.Second
	}
	r.Acquired = optionalTime(fields, "acquireTime")
	r.Renewed = optionalTime(fields, "renewTime")
	if n, ok := optional[int](fields, "leaderTransitions"); ok {
		r.Transitions, r.HasTransitions = max(n, 0), true
	}
	r.Strategy, _ = optional[string](fields, "strategy")
	r.PreferredHolder, _ = optional[string](fields, "preferredHolder")
	r.Preferred, _ = optional[string](fields, "preferred")
	if r.Epoch, _ = optional[uint64](fields, "epoch"); r.Epoch > 0 {
		r.EpochAcquired = optionalTime(fields, "epochAcquired")
	}
	uid, _ := optional[string](fields, "uid")
	if uid == "" {
		uid = foreignUID
	}
	return r, uid, nil
}

func optional[T any](fields map[string]json.RawMessage, name string) (value T, ok bool) {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return value, false
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		var none T
		return none, false
	}
	return value, true
}

func optionalTime(fields map[string]json.RawMessage, name string) time.Time {
	s, _ := optional[string](fields, name)
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return core.StoredTime(t)
}
