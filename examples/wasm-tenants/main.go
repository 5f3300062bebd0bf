// Command wasm-tenants is the controller of examples/tenants as a pure function:
// for each new leader it says which consumers the tenants should have, and
// changes nothing itself. It sees one directory, with the tenants.
//
//	GOOS=wasip1 GOARCH=wasm go build -o tenants.wasm ./examples/wasm-tenants
//	leaderbridge worker --election prod/scheduler --role tenants-plan --on event \
//	    --publish tenants.desired --wasm tenants.wasm --mount /etc/tenants:/tenants
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/leaderbridge/leaderbridge/examples/tenants/desired"
)

// event is a CloudEvent, as far as it matters here.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	DataContentType string `json:"datacontenttype,omitempty"`
	Epoch           uint64 `json:"epoch"`
	Data            any    `json:"data,omitempty"`
}

func main() {
	tenants, err := os.ReadFile("/tenants/tenants.json")
	if err == nil {
		err = plan(os.Stdin, tenants, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plan is the controller. The id of what it says follows from that of the
// event, so that the same thing said twice can be told.
func plan(in io.Reader, tenants []byte, out io.Writer) error {
	var e event
	if err := json.NewDecoder(in).Decode(&e); err != nil {
		return fmt.Errorf("read the event: %w", err)
	}
	if e.Type != "io.leaderbridge.new-leader.v1" {
		return nil
	}
	var all map[string]desired.Tenant
	if err := json.Unmarshal(tenants, &all); err != nil {
		return fmt.Errorf("read the tenants: %w", err)
	}
	return json.NewEncoder(out).Encode(event{
		SpecVersion: "1.0", ID: e.ID + ".desired", Source: "/examples/wasm-tenants", Type: "com.example.tenants.desired.v1",
		DataContentType: "application/json", Epoch: e.Epoch, Data: map[string]any{"consumers": desired.Consumers(all)},
	})
}
