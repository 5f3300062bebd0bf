//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/pkg/worker"
	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// The test binary plays every part: guard, worker, command.
func TestMain(m *testing.M) {
	if os.Getenv("LB_TEST_PART") == "no-guard" {
		_, err := New(Command{Path: "true"})
		fmt.Println(err)
		os.Exit(0)
	}
	MaybeGuard()
	switch os.Getenv("LB_TEST_PART") {
	case "work":
		os.Exit(work(os.Args[1:]))
	case "worker":
		os.Exit(workerMain(os.Args[1:]))
	}
	// The race detector makes a process wait for a second when it ends, which
	// for guards and commands only takes time.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

// work is a command. It records when it works, and how it is treated, as lines
// "pid instant what" in a file.
func work(args []string) int {
	fs := flag.NewFlagSet("work", flag.ExitOnError)
	record := fs.String("record", "", "")
	stubborn := fs.Bool("stubborn", false, "ignore SIGTERM")
	tree := fs.Bool("tree", false, "start descendants of every kind")
	orphan := fs.Bool("orphan", false, "start a descendant in a session of its own, and exit")
	leave := fs.Duration("leave", 0, "exit after that time")
	code := fs.Int("code", 0, "exit with that code")
	tidy := fs.Duration("tidy", 0, "how long to tidy up after SIGTERM")
	_ = fs.Parse(args) // it exits

	f, err := os.OpenFile(*record, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 100
	}
	note := func(what string) { fmt.Fprintf(f, "%d %d %s\n", os.Getpid(), boottime.Now(), what) }
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP)
	self := func(setsid bool, args ...string) *exec.Cmd {
		c := exec.Command("/proc/self/exe", append([]string{"-record", *record}, args...)...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr // holds the pipes
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
		return c
	}
	start := func(c *exec.Cmd) {
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	if *orphan {
		start(self(true, "-stubborn"))
		return 0
	}
	if *tree {
		start(self(false, "-stubborn"))
		start(self(true, "-stubborn"))
		start(self(true, "-orphan"))
	}
	note("begin epoch=" + os.Getenv("LEADERBRIDGE_EPOCH") + " role=" + os.Getenv("LEADERBRIDGE_ROLE"))
	var over <-chan time.Time
	if *leave > 0 {
		over = time.After(*leave)
	}
	tick := time.NewTicker(time.Millisecond)
	for {
		select {
		case s := <-signals:
			note("got " + s.String())
			if (s == syscall.SIGTERM || s == syscall.SIGINT) && !*stubborn {
				time.Sleep(*tidy) // time itself is the subject
				note("end")
				return *code
			}
		case <-over:
			return *code
		case <-tick.C:
			note("work")
		}
	}
}

// workerMain is a program with a worker in it. It is told on standard input
// what happens to its grant, and says on standard output what it does.
func workerMain(args []string) int {
	fs := flag.NewFlagSet("worker", flag.ExitOnError)
	valid := fs.Duration("valid", 0, "validity of the first grant")
	grace := fs.Duration("grace", time.Second, "")
	marker := fs.String("marker", "", "")
	relay := fs.Bool("relay", false, "")
	reap := fs.Bool("reap", false, "")
	terminal := fs.Bool("terminal", false, "give the command our own standard input, instead of taking orders from it")
	rush := fs.Bool("hurry", false, "do not let a busy machine hold up the worker")
	_ = fs.Parse(args) // it exits
	if *rush {
		hurry()
	}
	if *reap {
		adoptOrphans()
		go ReapOrphans(context.Background())
	}
	env := append(os.Environ(), *marker, "LB_TEST_PART=work")
	c := Command{Path: fs.Arg(0), Args: fs.Args()[1:], Env: env, Grace: *grace}
	orders := io.Reader(os.Stdin)
	if *terminal {
		c.Stdin, orders = os.Stdin, strings.NewReader("")
	}
	r, err := New(c)
	if err != nil {
		fmt.Println("error", err)
		return 2
	}
	var say sync.Mutex
	tell := func(a ...any) {
		say.Lock()
		defer say.Unlock()
		fmt.Println(a...)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := worker.NewGrant(ctx, testTerm(), boottime.Now().Add(*valid), *grace/4)
	if *relay {
		r.Relay(func(s os.Signal) { tell("signal", s); cancel() })
	}
	tell("guard", r.guard.cmd.Process.Pid)
	tell("deadline", int64(g.Term().Deadline()))
	go func() {
		for in := bufio.NewScanner(orders); in.Scan(); {
			switch word, arg, _ := strings.Cut(in.Text(), " "); word {
			case "extend":
				d, _ := time.ParseDuration(arg)
				if g.Extend(boottime.Now().Add(d)) {
					tell("deadline", int64(g.Term().Deadline()))
				}
			case "ping":
				tell("pong")
			}
		}
	}()
	err = g.Run(r.Handle, func(worker.Term) { tell("overrun") })
	tell("result", ExitCode(err), errors.Is(err, ErrGuard), err)
	r.Close()
	return ExitCode(err)
}

func testTerm() worker.Term {
	return worker.Term{
		Election: events.Election{Cluster: "default", Namespace: "prod", Lease: "scheduler"},
		Role:     "sync", Epoch: 7, Leader: "pod-b", Identity: "worker-1",
	}
}

// commandOf returns a Command that is work with the given arguments.
func commandOf(t *testing.T, args ...string) Command {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Path: exe, Args: args, Env: append(os.Environ(), "LB_TEST_PART=work"), Grace: 20 * time.Second}
}

func newRunner(t *testing.T, c Command) *Runner {
	t.Helper()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// newGrant returns a grant that lasts longer than any test.
func newGrant(t *testing.T) *worker.Grant {
	t.Helper()
	g := worker.NewGrant(t.Context(), testTerm(), boottime.Now().Add(time.Minute), 0)
	t.Cleanup(func() { g.End(nil) })
	return g
}

// entry is one line of a record.
type entry struct {
	pid  int
	at   boottime.Instant
	what string
}

func readRecord(t *testing.T, path string) []entry {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []entry
	for line := range strings.Lines(string(b)) {
		pid, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		at, what, _ := strings.Cut(rest, " ")
		n, err1 := strconv.Atoi(pid)
		i, err2 := strconv.ParseInt(at, 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("record line %q", line)
		}
		all = append(all, entry{n, boottime.Instant(i), what})
	}
	return all
}

// begun waits until so many processes have begun their work.
func begun(t *testing.T, record string, processes int) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%d processes at work", processes), func() bool {
		return countBegun(t, record) >= processes
	})
}

func countBegun(t *testing.T, record string) (n int) {
	t.Helper()
	for _, e := range readRecord(t, record) {
		if strings.HasPrefix(e.what, "begin") {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	testenv.Eventually(t, within, func() error {
		if !ok() {
			return errors.New(what)
		}
		return nil
	})
}
