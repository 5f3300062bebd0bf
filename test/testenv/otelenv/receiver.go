package otelenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/toolenv"
)

// Receiver is a running OTLP endpoint.
type Receiver struct {
	tb         testing.TB
	grpc, http string
	out        string
}

// Start runs a receiver until the test ends. It accepts connections when Start
// returns.
func Start(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{tb: tb, grpc: address(tb), http: address(tb), out: filepath.Join(tb.TempDir(), "otlp.jsonl")}
	var log bytes.Buffer
	cmd := exec.Command(toolenv.OTLPReceiver.Path(tb), "-grpc", r.grpc, "-http", r.http, "-out", r.out) // #nosec G204 -- our own program
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start the OTLP receiver: %v", err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		tb.Fatalf("start the OTLP receiver: %v: %s", err, &log)
	}
	if ready != "ready\n" {
		tb.Errorf("the OTLP receiver says %q", ready)
	}
	tb.Cleanup(func() {
		_ = stdin.Close() // which stops it
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			tb.Errorf("stop the OTLP receiver: %v: %s", err, &log)
		}
	})
	return r
}

func address(tb testing.TB) string {
	tb.Helper()
	port, err := testenv.FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// Env returns the variables that make a process export to the receiver. The
// protocol is "grpc" or "http/protobuf".
func (r *Receiver) Env(protocol string) []string {
	endpoint := "http://" + r.http
	if protocol == "grpc" {
		endpoint = "http://" + r.grpc
	}
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint,
		"OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol,
		// Tests do not wait for the usual five seconds, nor a minute.
		"OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_METRIC_EXPORT_INTERVAL=250",
	}
}

// messages returns the OTLP messages received so far. A line that is being
// written is not among them.
func (r *Receiver) messages() []message {
	r.tb.Helper()
	b, err := os.ReadFile(r.out)
	if err != nil {
		r.tb.Fatalf("read what the OTLP receiver got: %v", err)
	}
	var all []message
	for {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		if !complete {
			return all
		}
		b = rest
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			r.tb.Fatalf("read what the OTLP receiver got: %v in %s", err, line)
		}
		all = append(all, m)
	}
}
