package nodeenv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// installTimeout bounds the download of a project's packages.
const installTimeout = 5 * time.Minute

// Node returns the path of Node.js. The test fails without it.
func Node(tb testing.TB) string {
	tb.Helper()
	return find(tb, "node")
}

func find(tb testing.TB, program string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		tb.Fatalf("find %s: %v: install Node.js 20 or later and npm (Debian: apt-get install nodejs npm)", program, err)
	}
	return path
}

// Packages returns the folder node_modules of a project, which is a folder
// with package.json and package-lock.json. The first call for a lock file
// downloads the packages; several processes may call it at once.
func Packages(tb testing.TB, project string) string {
	tb.Helper()
	npm := find(tb, "npm")
	folder, err := install(npm, project)
	if err != nil {
		tb.Fatalf("install the npm packages of %s: %v", project, err)
	}
	return filepath.Join(folder, "node_modules")
}

func install(npm, project string) (folder string, err error) {
	sum := sha256.New()
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(project, name)) // #nosec G304 -- our own projects
		if err != nil {
			return "", err
		}
		files[name] = text
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user cache directory: %w", err)
	}
	folder = filepath.Join(cache, "leaderbridge", fmt.Sprintf("npm-%.12x", sum.Sum(nil)))
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil { // #nosec G301 -- packages for whoever shares the cache
		return "", err
	}
	unlock, err := testenv.LockFile(folder + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	// A stop in the middle must not leave half an installation under the
	// final name.
	partial := folder + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o755)); err != nil { // #nosec G301 -- as above
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(partial, name), text, 0o644); err != nil { // #nosec G306 -- as above
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund") // #nosec G204 -- npm itself
	cmd.Dir = partial
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return folder, os.Rename(partial, folder)
}
