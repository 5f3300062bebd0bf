package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// process is a process that is measured.
type process struct {
	s    *site
	cmd  *exec.Cmd
	out  output
	done chan struct{}
}

// start runs the leaderbridge command.
func (s *site) start(args ...string) *process { return s.launch(nil, s.leaderbridge(), args...) }

// play runs this program in one of its roles.
func (s *site) play(role string, args ...string) *process {
	self, err := os.Executable()
	s.must(err)
	return s.launch([]string{roleVariable + "=" + role}, self, args...)
}

func (s *site) launch(env []string, path string, args ...string) *process {
	p := &process{s: s, cmd: exec.Command(path, args...), done: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEADERBRIDGE_") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "OTEL_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	s.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // each end is wanted, or missed by whoever waits for its work
		close(p.done)
	}()
	s.Cleanup(func() {
		p.kill()
		if s.Failed() {
			s.progress("%s wrote:\n%s", args[0], p.out.tail())
		}
	})
	return p
}

// kill ends it with SIGKILL and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// ready waits until the process says so over HTTP.
func (p *process) ready(port int) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	testenv.Eventually(p.s, ready, func() error {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", response.Status)
		}
		return nil
	})
}

// output keeps the end of what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() > 1<<20 {
		o.text.Reset()
	}
	return o.text.Write(p)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.String()
	return text[max(0, len(text)-4096):]
}
