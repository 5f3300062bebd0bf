package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPercentilesAreMeasuredValues(t *testing.T) {
	t.Parallel()
	hundred := make(samples, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	for _, c := range []struct {
		all  samples
		p    float64
		want float64
	}{
		{hundred, 0.50, 50}, {hundred, 0.99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
		{samples{7}, 0.50, 7}, {samples{7}, 0.99, 7},
		{samples{3, 1, 2}, 0.50, 2}, {samples{3, 1, 2}, 0.99, 3},
		{nil, 0.50, 0},
	} {
		if got := c.all.at(c.p); got != c.want {
			t.Errorf("%v at %v: %v, want %v", c.all, c.p, got, c.want)
		}
	}
}

func TestTableReplacesWhatStandsBetweenTheMarkers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMarker+"\nold\n"+endMarker+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := report{Rows: []row{
		row{Name: "hand-over, p50", Unit: "ms", Ours: 12, Peer: 1000, Floor: 10}.against("≤ 1.5 × floor", func(r row) bool { return r.Ratio <= 1.5 }),
		row{Name: "crash", Unit: "ms", Ours: 70}.against("≤ 50 ms", func(r row) bool { return r.Ours <= 50 }),
	}}
	for range 2 { // A second time changes nothing.
		if err := r.putInto(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n", "\nafter\n",
		"| hand-over, p50 | ms | 12.0 | 1000 | 10.0 | 1.20 | ≤ 1.5 × floor | yes |",
		"| crash | ms | 70.0 |  |  |  | ≤ 50 ms | **no** |",
	} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("%q is there %d times, want once:\n%s", want, strings.Count(string(text), want), text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("the old table is still there:\n%s", text)
	}
	if err := r.putInto(filepath.Join(t.TempDir(), "none.md")); err == nil {
		t.Error("no error for a document that does not exist")
	}
}
