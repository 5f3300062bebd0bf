package process

import (
	"os"
	"os/exec"
	"testing"
)

func TestParseStat(t *testing.T) {
	for line, want := range map[string]proc{
		"12 (sh) S 1 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4567 2 3":                {12, 1, 'S', "4567"},
		"12 (a) b (c) R 7) Z 99 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 18446744 2 3": {12, 99, 'Z', "18446744"},
	} {
		if got, ok := parseStat([]byte(line)); !ok || got != want {
			t.Errorf("%q: %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"", "(", ")", "12 (sh)", "12 (sh) S 1 2", "x (sh) S 1 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4567"} {
		if got, ok := parseStat([]byte(line)); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sh) S 1 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4567 2 3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && p.start == "" {
			t.Errorf("%q: no start time", b)
		}
	})
}

func TestDescendants(t *testing.T) {
	before, ok := descendants(os.Getpid())
	if !ok {
		t.Fatal("descendants cannot be found")
	}
	cmd := exec.Command("sh", "-c", "sleep 60 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // both run
		t.Fatal(err)
	}
	after, _ := descendants(os.Getpid())
	if len(after) != len(before)+2 {
		t.Errorf("%d descendants, then %d", len(before), len(after))
	}
	for _, p := range after {
		if p.parent == cmd.Process.Pid || p.pid == cmd.Process.Pid {
			stale := p
			stale.start = "0"
			stale.signal(9) // another process of the same number is spared
			if !p.isStill() || stale.isStill() {
				t.Errorf("process %d was killed by mistake", p.pid)
			}
			p.signal(9)
		}
	}
	_ = cmd.Wait() // killed
}
