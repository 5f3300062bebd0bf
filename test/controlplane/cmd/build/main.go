// Command build makes the kube-apiserver and etcd binaries that the tests run,
// once for each version, in the user cache directory. It prints the folder
// that holds them, in the form envtest expects, on standard output. With -print
// it builds nothing and only prints that folder.
//
// KUBEBUILDER_ASSETS, when set, names a folder that already holds both
// binaries; nothing is built then.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const progressEvery = 30 * time.Second

func main() {
	printOnly := flag.Bool("print", false, "print the folder and build nothing")
	flag.Parse()
	dir, err := assets(*printOnly)
	if err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// assets returns the folder with both binaries, building what is missing
// unless printOnly is set.
func assets(printOnly bool) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		for _, name := range []string{"kube-apiserver", "etcd"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return "", fmt.Errorf("KUBEBUILDER_ASSETS=%s holds no %s: put it there or unset the variable: %w", dir, name, err)
			}
		}
		return dir, nil
	}
	kube, err := moduleVersion("k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	etcd, err := moduleVersion("go.etcd.io/etcd/server/v3")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user cache directory: %w", err)
	}
	dir := filepath.Join(cache, "leaderbridge", fmt.Sprintf("controlplane-kube-%s-etcd-%s-%s-%s", kube, etcd, runtime.GOOS, runtime.GOARCH))
	if printOnly {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	builds := []struct{ name, version, ldflags string }{
		{"etcd", etcd, "-s -w"},
		{"kube-apiserver", kube, "-s -w" + versionFlags(kube)},
	}
	for _, b := range builds {
		if err := build(dir, b.name, b.version, b.ldflags); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// moduleVersion asks the module graph, so that go.mod stays the only place
// where versions are written.
func moduleVersion(module string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("find the version of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// versionFlags stamps the version the way the upstream build does: an
// unstamped server calls itself v0.0.0 and disables version-gated features.
func versionFlags(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const pkg = " -X k8s.io/component-base/version."
	return pkg + "gitVersion=" + version +
		pkg + "gitMajor=" + parts[0] +
		pkg + "gitMinor=" + parts[1] +
		pkg + "gitTreeState=clean"
}

// lock lets one build run at a time; the others wait and then find its result.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// build compiles one binary unless it is there, and says how long it takes.
func build(dir, name, version, ldflags string) error {
	target := filepath.Join(dir, name)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "control plane: building %s %s (once; about ten minutes on two cores for the API server)\n", name, version)
	// A stop in the middle must not leave half a binary under the final name.
	partial := target + ".partial"
	cmd := exec.Command("go", "build", "-ldflags", ldflags, "-o", partial, "./cmd/"+name)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("build %s: %w", name, err)
			}
			fmt.Fprintf(os.Stderr, "control plane: built %s in %s\n", name, time.Since(start).Round(time.Second))
			return os.Rename(partial, target)
		case <-tick.C:
			fmt.Fprintf(os.Stderr, "control plane: still building %s after %s\n", name, time.Since(start).Round(time.Second))
		}
	}
}
