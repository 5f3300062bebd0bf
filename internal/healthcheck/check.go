// Package healthcheck asks a URL or a command whether a process is fit to
// lead.
package healthcheck

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// mostOutput bounds what is read of an answer, for the error's text.
const mostOutput = 512

// URL returns a check that succeeds when a GET is answered with a 2xx status.
// Redirects are followed. An error is bad input.
func URL(target string) (func(context.Context) error, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("health URL %q: want http://host:port/path or https://host:port/path", target)
	}
	// A connection of its own for each check: one that is kept alive can
	// outlive the listener that it is to ask for.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, mostOutput))
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s answers %s: %s", u.Redacted(), resp.Status, firstLine(body))
		}
		return nil
	}, nil
}

// Command returns a check that succeeds when the shell command exits with 0.
// When the check's time is over the command and all that it started in its
// process group are killed.
func Command(line string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) // #nosec G204 -- the operator's own command
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 100 * time.Millisecond
		out, err := cmd.CombinedOutput()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the health command has not ended in time: %w", context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("the health command failed: %w: %s", err, firstLine(out))
		}
		return nil
	}
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), mostOutput)])), "\n")
	return line
}
