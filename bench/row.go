package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report is the outcome of a run.
type report struct {
	Taken    time.Time         `json:"taken"`
	Took     string            `json:"took"`
	Short    bool              `json:"short,omitempty"`
	Note     string            `json:"note,omitempty"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"`
	Rows     []row             `json:"rows"`
}

// row is one figure. Peer and Floor are zero where there is none.
type row struct {
	// Name is the benchmark and what of it the row shows.
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Samples is how many measurements of ours the figure comes from.
	Samples int     `json:"samples,omitempty"`
	Ours    float64 `json:"ours"`
	Peer    float64 `json:"peer,omitempty"`
	Floor   float64 `json:"floor,omitempty"`
	// Ratio is ours to the floor, or else to the peer.
	Ratio float64 `json:"ratio,omitempty"`
	Goal  string  `json:"goal,omitempty"`
	Met   bool    `json:"met"`
}

// against fills in the ratio and the goal.
func (r row) against(goal string, met func(row) bool) row {
	switch {
	case r.Floor != 0:
		r.Ratio = r.Ours / r.Floor
	case r.Peer != 0:
		r.Ratio = r.Ours / r.Peer
	}
	r.Goal, r.Met = goal, met(r)
	return r
}

// String is the row as progress shows it.
func (r row) String() string {
	text := fmt.Sprintf("%s: ours %s %s", r.Name, figure(r.Ours), r.Unit)
	if r.Peer != 0 {
		text += ", peer " + figure(r.Peer)
	}
	if r.Floor != 0 {
		text += ", floor " + figure(r.Floor)
	}
	if r.Ratio != 0 {
		text += ", ratio " + figure(r.Ratio)
	}
	if r.Goal != "" {
		text += fmt.Sprintf(" (goal %s: %s)", r.Goal, yes(r.Met))
	}
	return text
}

func yes(b bool) string {
	if b {
		return "met"
	}
	return "missed"
}

// figure shows three digits that matter.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

func newReport(o options, at time.Time) *report {
	return &report{
		Taken: at.UTC().Truncate(time.Second), Short: o.short, Note: o.note,
		Machine:  fmt.Sprintf("%s, %d processors, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH),
		Versions: versions(),
	}
}

// processor is the processor's name where it is easy to find.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unnamed processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unnamed processor"
}

// versions are those of what the figures depend on.
func versions() map[string]string {
	all := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return all
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "k8s.io/client-go", "github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2":
			all[d.Path] = d.Version
		}
	}
	return all
}
