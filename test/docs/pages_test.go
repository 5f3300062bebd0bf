package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// block is one fenced block of a page.
type block struct {
	page string
	line int    // of its first line of text
	info string // what stands after the opening fence
	text string
}

// pages returns the Markdown files of the repository, relative to its root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/*/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, filepath.ToSlash(rel))
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d pages below %s", len(found), root)
	}
	return found
}

var root = filepath.Join("..", "..")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns a page's fenced blocks, in order.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	var found []block
	var open *block
	var body bytes.Buffer
	number := 0
	for line := range strings.Lines(read(t, page)) {
		number++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{page: page, line: number + 1, info: strings.TrimSpace(fence)}
			body.Reset()
		case isFence:
			open.text = body.String()
			found, open = append(found, *open), nil
		case open != nil:
			body.WriteString(line)
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", page, open.line)
	}
	return found
}
