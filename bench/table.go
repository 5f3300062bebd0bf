package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// The table in the documentation stands between these.
const (
	beginMarker = "<!-- begin: written by \"make bench\" -->"
	endMarker   = "<!-- end -->"
)

// table shows the report in Markdown.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Taken %s in %s on %s; %s, client-go %s, nats-server %s.", r.Taken.Format("2006-01-02 15:04 MST"), r.Took, r.Machine,
		r.Versions["go"], r.Versions["k8s.io/client-go"], r.Versions["github.com/nats-io/nats-server/v2"])
	if r.Note != "" {
		b.WriteString(" " + r.Note)
	}
	b.WriteString("\n\n| what | unit | ours | peer | floor | ratio | goal | met |\n|---|---|--:|--:|--:|--:|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", row.Name, row.Unit,
			figure(row.Ours), orNone(row.Peer), orNone(row.Floor), orNone(row.Ratio), row.Goal, met(row))
	}
	return b.String()
}

func orNone(v float64) string {
	if v == 0 {
		return ""
	}
	return figure(v)
}

func met(r row) string {
	switch {
	case r.Goal == "":
		return ""
	case r.Met:
		return "yes"
	default:
		return "**no**"
	}
}

// putInto replaces what stands between the markers of a document.
func (r *report) putInto(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("put the table into the documentation: %w", err)
	}
	before, rest, ok := bytes.Cut(text, []byte(beginMarker))
	if !ok {
		return fmt.Errorf("put the table into %s: the line %q is missing", path, beginMarker)
	}
	_, after, ok := bytes.Cut(rest, []byte(endMarker))
	if !ok {
		return fmt.Errorf("put the table into %s: the line %q is missing", path, endMarker)
	}
	whole := fmt.Sprintf("%s%s\n%s\n%s%s", before, beginMarker, r.table(), endMarker, after)
	return os.WriteFile(path, []byte(whole), 0o644) // #nosec G306 -- documentation is for everybody
}
