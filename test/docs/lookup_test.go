package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// Commands that are not run exist at least, with their flags.
func TestCommandsExist(t *testing.T) {
	helps := map[string]string{}
	help := func(subcommand string) string {
		if helps[subcommand] == "" {
			out, err := exec.Command(procenv.Binary(t), strings.Fields(subcommand+" --help")...).CombinedOutput()
			if err != nil {
				t.Errorf("leaderbridge %s --help: %v", subcommand, err)
			}
			helps[subcommand] = string(out)
		}
		return helps[subcommand]
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	looked := 0
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if kind, _, _ := strings.Cut(b.info, " "); kind != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				words := strings.Fields(line)
				for i, word := range words {
					if word == "make" && i == 0 && len(words) > 1 && !targets[words[1]] {
						t.Errorf("%s:%d: the Makefile has no target %q", page, b.line, words[1])
					}
					if path.Base(word) != "leaderbridge" || i > 0 && !strings.HasSuffix(words[i-1], "=") && strings.HasPrefix(words[i-1], "-") || i+1 == len(words) {
						continue
					}
					subcommand := words[i+1]
					if strings.HasPrefix(subcommand, "-") {
						continue
					}
					if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(subcommand) + ` `).MatchString(help("")) {
						continue // the word is no command's name: a folder or an argument
					}
					looked++
					for _, flag := range words[i+2:] {
						if flag == "--" || flag == "|" || flag == "&" || flag == "#" {
							break
						}
						name, _, _ := strings.Cut(flag, "=")
						if strings.HasPrefix(name, "--") && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).MatchString(help(subcommand)) {
							t.Errorf("%s:%d: leaderbridge %s has no flag %s", page, b.line, subcommand, name)
						}
					}
				}
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d commands were found", looked)
	}
}

// Links between files of the repository lead somewhere, and so do those to
// headings.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fences := regexp.MustCompile("(?s)```.*?```")
	followed := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fences.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			followed++
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(to, ".md") && !headings(t, to)[anchor] {
				t.Errorf("%s: %s has no heading for the link %s", page, to, m[1])
			}
		}
	}
	if followed < 20 {
		t.Errorf("only %d links were found", followed)
	}
}

// headings returns the anchors of a page's headings, made as GitHub does.
func headings(t *testing.T, page string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for line := range strings.Lines(read(t, page)) {
		if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
			text = strings.ToLower(strings.TrimSpace(text))
			text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, "")
			anchors[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return anchors
}

// A page that names a test names one that there is.
func TestNamedTestsExist(t *testing.T) {
	var source bytes.Buffer
	for _, folder := range []string{"cmd", "internal", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := 0
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*|Fuzz[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(read(t, page), -1) {
			named++
			if !bytes.Contains(source.Bytes(), []byte("func "+name[1]+"(")) {
				t.Errorf("%s names the test %s, which there is not", page, name[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d tests are named", named)
	}
}
