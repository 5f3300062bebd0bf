// Command wasm-announce is a module that runs once per event: it answers each
// became-leader event with an announcement.
//
//	GOOS=wasip1 GOARCH=wasm go build -o announce.wasm ./examples/wasm-announce
//	leaderbridge worker --election prod/scheduler --role announcer --on event --publish announcements --wasm announce.wasm
//
// It is a pure function from one event to others. The id of the announcement
// follows from that of the event, so that one made twice can be told.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}

type transition struct {
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	Epoch     uint64 `json:"epoch"`
	Leader    string `json:"leader"`
}

func main() {
	if err := announce(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func announce(in io.Reader, out io.Writer) error {
	var e event
	if err := json.NewDecoder(in).Decode(&e); err != nil {
		return fmt.Errorf("reading the event: %w", err)
	}
	if e.Type != "io.leaderbridge.became-leader.v1" {
		return nil
	}
	var t transition
	if err := json.Unmarshal(e.Data, &t); err != nil {
		return fmt.Errorf("reading the event's data: %w", err)
	}
	text, err := json.Marshal(map[string]string{
		"text": fmt.Sprintf("%s leads %s/%s, epoch %d", t.Leader, t.Namespace, t.Lease, t.Epoch),
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(event{
		SpecVersion: "1.0", ID: e.ID + ".announced", Source: "/examples/wasm-announce",
		Type: "com.example.announced.v1", DataContentType: "application/json", Data: text,
	})
}
