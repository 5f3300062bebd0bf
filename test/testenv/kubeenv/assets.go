package kubeenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// assets returns the folder that holds kube-apiserver and etcd. It builds
// nothing: a build takes minutes, and a test binary has a time limit.
func assets() (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		var err error
		if dir, err = builtAssets(); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("find the test control plane: %w: run \"make controlplane\", or set KUBEBUILDER_ASSETS to a folder that holds kube-apiserver and etcd", err)
		}
	}
	return dir, nil
}

// builtAssets asks the builder where it puts its binaries, so that one program
// knows the layout of the cache.
func builtAssets() (string, error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", describe(err))
	}
	module := filepath.Join(filepath.Dir(string(bytes.TrimSpace(gomod))), "test", "controlplane")
	dir, err := exec.Command("go", "-C", module, "run", "./cmd/build", "-print").Output()
	if err != nil {
		return "", fmt.Errorf("find the test control plane's folder: %w", describe(err))
	}
	return string(bytes.TrimSpace(dir)), nil
}

// describe adds what a failed command wrote to its error.
func describe(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
