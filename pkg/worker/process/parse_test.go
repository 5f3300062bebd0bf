//go:build unix

package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

func TestPrefixerAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-z]{0,5}\n?){0,20}`).Draw(t, "text")
		var got bytes.Buffer
		var writes int
		p := &prefixer{prefix: "> ", w: writerFunc(func(b []byte) (int, error) {
			writes++
			if b[len(b)-1] != '\n' {
				t.Fatalf("a write of half a line: %q", b)
			}
			return got.Write(b)
		})}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			if wrote, err := io.WriteString(p, rest[:n]); wrote != n || err != nil {
				t.Fatalf("write = %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		lines := 0
		for line := range strings.Lines(text) {
			want.WriteString("> " + strings.TrimSuffix(line, "\n") + "\n")
			lines++
		}
		if got.String() != want.String() || writes != lines {
			t.Fatalf("%q became %q in %d writes, want %q", text, got.String(), writes, want.String())
		}
	})
}

func TestPrefixerBoundsALineThatDoesNotEnd(t *testing.T) {
	var got bytes.Buffer
	p := &prefixer{w: &got, prefix: "> "}
	chunk := bytes.Repeat([]byte{'x'}, 1000)
	for range 1000 {
		if _, err := p.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if len(p.line) > longestLine+len(p.prefix) {
			t.Fatalf("%d bytes are held back", len(p.line))
		}
	}
	p.flush()
	if n := bytes.Count(got.Bytes(), []byte{'x'}); n != 1_000_000 {
		t.Errorf("%d of 1000000 bytes arrived", n)
	}
}

// Messages arrive whole, in order and with their files, however the stream was
// cut.
func TestLinkCarriesMessagesAndFiles(t *testing.T) {
	fa, fb, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newLink(fa)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	b, err := newLink(fb)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	big := strings.Repeat("x", 1<<20) // more than the socket's buffer
	sent := make(chan error, 1)
	go func() {
		defer b.close()
		err := b.send(order{Run: 1, Start: &launch{Path: "p", Env: []string{big}}}, w, w, w)
		for i := range 100 {
			if err == nil {
				err = b.send(order{Run: 2, Deadline: 100 + 1 + boottime.Instant(i)})
			}
		}
		w.Close()
		sent <- err
	}()
	var o order
	if err := a.receive(&o); err != nil || o.Start == nil || o.Start.Env[0] != big {
		t.Fatalf("receive = %v", err)
	}
	fds := a.takeFiles()
	if len(fds) != standardFiles {
		t.Fatalf("%d files arrived", len(fds))
	}
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pipe")
		if _, err := io.WriteString(f, "hi "); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	for i := range 100 {
		var o order
		if err := a.receive(&o); err != nil || o.Deadline != 101+boottime.Instant(i) {
			t.Fatalf("message %d: %+v, %v", i, o, err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := a.receive(&o); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if got, _ := io.ReadAll(r); string(got) != "hi hi hi " {
		t.Errorf("through the files came %q", got)
	}
}
