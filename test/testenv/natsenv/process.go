package natsenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// Process is one NATS server with JetStream in a process of its own: the test
// binary, started again as a server. It can be lost as a machine is lost,
// which no server inside the test's process can. Its methods must be called
// from the goroutine that runs the test.
type Process struct {
	name      string
	folder    string
	port      int
	monitor   int // the port of the monitoring endpoints
	cmd       *exec.Cmd
	exited    chan struct{} // closed when cmd has ended and was waited for
	keepAlive *os.File      // the server ends when this is closed
}

// StartProcess runs one server in a process of its own until the test ends.
// The text config, in the language of nats-server's configuration file, is
// added to what the server needs; it must not name a store_dir.
func StartProcess(tb testing.TB, config string) *Process {
	tb.Helper()
	p := newProcess(tb, "single", config)
	p.start(tb)
	p.waitReady(tb, 1)
	return p
}

// StartProcesses runs three servers as a cluster, each in a process of its
// own. It returns when JetStream has a leader and all servers take part. A
// connection to one of them learns of the others and moves to them, unless the
// text cluster, which is added to what makes the servers a cluster, says
// "no_advertise: true".
func StartProcesses(tb testing.TB, config, cluster string) [Size]*Process {
	tb.Helper()
	var (
		processes [Size]*Process
		ports     [Size]int
		routes    [Size]string
	)
	for i := range ports {
		ports[i] = freePort(tb)
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", ports[i])
	}
	for i := range processes {
		block := fmt.Sprintf("cluster { name: natsenv, listen: \"127.0.0.1:%d\", routes: [%s]\n%s\n}\n", ports[i], strings.Join(routes[:], ", "), cluster)
		processes[i] = newProcess(tb, fmt.Sprintf("node-%d", i), block+config)
	}
	for _, p := range processes {
		p.start(tb)
	}
	for _, p := range processes {
		p.waitReady(tb, Size)
	}
	return processes
}

// newProcess writes the server's configuration without starting it.
func newProcess(tb testing.TB, name, config string) *Process {
	tb.Helper()
	p := &Process{name: name, folder: filepath.Join(tb.TempDir(), name), port: freePort(tb), monitor: freePort(tb)}
	if err := os.Mkdir(p.folder, 0o700); err != nil {
		tb.Fatal(err)
	}
	text := fmt.Sprintf("server_name: %s\nlisten: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\nstore_dir: %q\njetstream: enabled\nlog_file: %q\n%s\n",
		name, p.port, p.monitor, filepath.Join(p.folder, "store"), p.logFile(), config)
	if err := os.WriteFile(p.configFile(), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill(tb)
		if tb.Failed() {
			tb.Logf("log of the NATS server %s:\n%s", name, p.logTail())
		}
	})
	return p
}

func (p *Process) configFile() string { return filepath.Join(p.folder, "nats.conf") }
func (p *Process) logFile() string    { return filepath.Join(p.folder, "nats.log") }

func (p *Process) logTail() string {
	const shown = 16 << 10
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-shown):])
}

// start runs the test binary as a server and does not wait until it serves.
func (p *Process) start(tb testing.TB) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("find the test binary: %v", err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		tb.Fatalf("make the pipe that ends the NATS server with the test: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), configVariable+"="+p.configFile())
	cmd.Stdin = theirs
	// A panic of the server belongs into the test's output.
	cmd.Stderr = os.Stderr
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		tb.Fatalf("start the NATS server %s: %v", p.name, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // Every end of a server is wanted or found by waitReady.
	}()
	p.cmd, p.exited, p.keepAlive = cmd, exited, ours
}

// waitReady waits until the server is ready: see [Process.ready].
func (p *Process) waitReady(tb testing.TB, size int) {
	tb.Helper()
	testenv.Eventually(tb, startTimeout, func() error { return p.ready(size) })
}

// ready tells why the server does not serve or, in a cluster, JetStream has no
// leader or this server has not caught up with it; nil when all is well.
func (p *Process) ready(size int) error {
	select {
	case <-p.exited:
		return fmt.Errorf("the NATS server %s has ended: %v", p.name, p.cmd.ProcessState)
	default:
	}
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p.monitor))
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string, into any) error {
		response, err := client.Get(url + path)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		return json.NewDecoder(response.Body).Decode(into)
	}
	var health server.HealthStatus
	if err := get("/healthz", &health); err != nil {
		return fmt.Errorf("the NATS server %s is not ready: %w", p.name, err)
	}
	if size == 1 {
		return nil
	}
	var js server.JSInfo
	if err := get("/jsz", &js); err != nil {
		return fmt.Errorf("the NATS server %s has no JetStream: %w", p.name, err)
	}
	if js.Meta == nil || js.Meta.Leader == "" || js.Meta.Size < size {
		return fmt.Errorf("the NATS server %s sees no JetStream leader: %+v", p.name, js.Meta)
	}
	return nil
}

// Name returns the server's name, which is how JetStream names a stream's
// leader.
func (p *Process) Name() string { return p.name }

// URL returns the address for clients. It stays the same across restarts.
func (p *Process) URL() string {
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))
}

// Connect returns a connection that is closed when the test ends. It
// reconnects for ever, and fast, unless options say otherwise.
func (p *Process) Connect(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	return connect(tb, p.URL(), options)
}

// JetStream returns a JetStream context on a connection of its own.
func (p *Process) JetStream(tb testing.TB) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, p.Connect(tb))
}

// Kill ends the server with SIGKILL and returns when it is gone. Its files
// stay as they were at that moment. It is fine if the server is not running.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("kill the NATS server %s: %v", p.name, err)
	}
	<-p.exited
	_ = p.keepAlive.Close()
	p.cmd = nil
}

// Restart kills the server if it is running, and starts it again on the same
// ports and with the same files. It returns when the server answers; in a
// cluster, that is when it has caught up with JetStream's leader.
func (p *Process) Restart(tb testing.TB) {
	tb.Helper()
	p.Kill(tb)
	p.start(tb)
	p.waitReady(tb, 1)
}

// Launch is Restart without the wait: see [Process.Ready].
func (p *Process) Launch(tb testing.TB) {
	tb.Helper()
	p.Kill(tb)
	p.start(tb)
}

// Ready returns nil when the server answers and, in a cluster, has caught up
// with JetStream's leader; otherwise what is missing.
func (p *Process) Ready() error { return p.ready(1) }

// Pause stops the server with SIGSTOP: connections stay open and nothing is
// answered. Resume ends it.
func (p *Process) Pause(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGSTOP)
}

// Resume ends a Pause. The server then answers what it received meanwhile.
func (p *Process) Resume(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGCONT)
}

func (p *Process) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if p.cmd == nil {
		tb.Fatalf("send %s to the NATS server %s: it is not running", sig, p.name)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		tb.Fatalf("send %s to the NATS server %s: %v", sig, p.name, err)
	}
}
