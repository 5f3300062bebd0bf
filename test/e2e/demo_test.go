package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// The demo's JSON lines satisfy every promise of the log, and nothing is left
// behind: no directory and no process.
func TestDemo(t *testing.T) {
	tmp := t.TempDir()
	p := procenv.Start(t, "demo", []string{"TMPDIR=" + tmp}, "demo", "--rounds", "6", "--pause", "500ms", "--output", "json")
	if code := p.Wait(4 * time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var all []events.Event
	for line := range strings.Lines(p.Stdout()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("not a line of JSON: %q", line)
		}
		e, err := events.Decode(nil, []byte(strings.TrimSpace(line)))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	checkLegal(t, all)
	if last := all[len(all)-1]; last.Epoch < 7 {
		t.Errorf("six hand-overs ended in epoch %d", last.Epoch)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range procs {
		env, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(env), "TMPDIR="+tmp) && filepath.Base(filepath.Dir(f)) != strconv.Itoa(os.Getpid()) {
			t.Errorf("process %s is left behind", filepath.Base(filepath.Dir(f)))
		}
	}
}
