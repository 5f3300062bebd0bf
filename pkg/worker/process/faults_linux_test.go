package process

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// Each scene has a stubborn tree: the command, a child in its group that holds
// the pipes, one in a session of its own, and one whose parent has exited. All
// of them ignore SIGTERM.
const treeSize = 4

var tree = []string{"-stubborn", "-tree"}

// stop stops a process, and waits until it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	send(t, pid, syscall.SIGSTOP)
	eventually(t, 5*time.Second, "the process is stopped", func() bool {
		p, ok := readProc(pid)
		return ok && p.state == 'T'
	})
}

// send sends a signal to a process that is there, or to a group if negative.
func send(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("sending signal %v to %d: %v", sig, pid, err)
	}
}

func (s *scene) signal(sig syscall.Signal) { s.t.Helper(); send(s.t, s.cmd.Process.Pid, sig) }

func (s *scene) stopWorker() { s.t.Helper(); stop(s.t, s.cmd.Process.Pid) }

func TestAKilledWorkerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s", "-grace", "300ms"}, tree...)
	s.atWork(treeSize)
	guard, deadline := s.now()
	killed := boottime.Now()
	s.signal(syscall.SIGKILL)
	s.gone(5 * time.Second)
	s.noWorkAfter(min(deadline, killed.Add(3*time.Second)), treeSize)
	eventually(t, 5*time.Second, "the guard has ended", func() bool {
		p, ok := readProc(guard)
		return !ok || p.state == 'Z'
	})
}

func TestAStoppedWorkerDoesNotProlongItsCommand(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s"}, tree...)
	s.atWork(treeSize)
	_, deadline := s.now()
	s.stopWorker()
	s.gone(10 * time.Second)
	s.noWorkAfter(deadline, treeSize)
	s.signal(syscall.SIGCONT)
	s.heard("result")
}

// A renewal that the worker did not live to pass on does not count.
func TestWorkerStoppedAfterRenewals(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s"}, tree...)
	s.atWork(treeSize)
	_, first := s.now()
	for boottime.Now() < first.Add(-time.Second) {
		s.tell("extend 4s")
		time.Sleep(300 * time.Millisecond) // time itself is the subject
	}
	s.stopWorker()
	_, last := s.now()
	s.tell("extend 1h") // unread
	s.gone(10 * time.Second)
	s.noWorkAfter(last, treeSize)
	worked := readRecord(t, s.record)
	if end := worked[len(worked)-1].at; end < first {
		t.Errorf("the command ended %v before the first deadline although the grant was renewed", first.Sub(end))
	}
}

func TestAKilledGuardTakesTheCommandWithIt(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s"}, tree...)
	s.atWork(treeSize)
	guard, _ := s.now()
	killed := boottime.Now()
	send(t, guard, syscall.SIGKILL)
	if got := s.heard("result"); !strings.HasPrefix(got, "result 1 true") {
		t.Errorf("the worker says %q", got)
	}
	s.gone(5 * time.Second)
	s.noWorkAfter(killed.Add(2*time.Second), treeSize)
}

func TestAStoppedGuardIsReplacedByTheWorker(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s", "-hurry"}, tree...)
	s.atWork(treeSize)
	guard, deadline := s.now()
	stop(t, guard)
	if got := s.heard("result"); !strings.HasPrefix(got, "result 1 true") {
		t.Errorf("the worker says %q", got)
	}
	s.gone(5 * time.Second)
	s.noWorkAfter(deadline, treeSize)
}

// Two faults at once: the kernel continues a stopped guard when its worker
// dies, since the guard's process group is orphaned by that.
func TestAStoppedGuardGoesOnWhenTheWorkerDies(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s", "-grace", "300ms"}, tree...)
	s.atWork(treeSize)
	guard, deadline := s.now()
	stop(t, guard)
	s.signal(syscall.SIGKILL)
	s.gone(10 * time.Second)
	s.noWorkAfter(deadline, treeSize)
}

// With both gone, the kernel still kills the command itself.
func TestWorkerAndGuardKilledTogether(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s"}, "-stubborn")
	s.atWork(1)
	guard, _ := s.now()
	s.stopWorker() // so that it cannot see to it
	send(t, guard, syscall.SIGKILL)
	s.gone(5 * time.Second)
	s.signal(syscall.SIGKILL)
}

func TestAGuardThatWasPausedPastTheDeadlineKillsAtOnce(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s"}, tree...)
	s.atWork(treeSize)
	guard, deadline := s.now()
	// Both stopped is the limit that doc.go names: nothing can act.
	stop(t, guard)
	s.stopWorker()
	eventually(t, 10*time.Second, "the deadline passes", func() bool { return boottime.Now() > deadline })
	if len(withMarker(s.marker)) < treeSize {
		t.Fatal("somebody ended the command: the documented limit is gone")
	}
	resumed := boottime.Now()
	send(t, guard, syscall.SIGCONT)
	s.gone(5 * time.Second)
	s.noWorkAfter(resumed.Add(time.Second), treeSize)
	s.signal(syscall.SIGCONT)
	s.heard("result") // of the guard, if it was quick, or of the worker's own doing
}

func TestTheCommandLivesWithItsGrant(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "4s", "-grace", "200ms", "-hurry"}, "-stubborn")
	s.atWork(1)
	_, first := s.now()
	for boottime.Now() < first.Add(2*time.Second) {
		s.tell("extend 4s")
		time.Sleep(200 * time.Millisecond) // time itself is the subject
	}
	s.heard("result")
	_, last := s.now()
	s.noWorkAfter(last, 1)
	all := readRecord(t, s.record)
	if end := all[len(all)-1].at; end < first.Add(2*time.Second) {
		t.Errorf("ended %v after the first deadline, while renewals went on", end.Sub(first))
	}
}

// Field case 92: the terminal signals the worker's whole process group; the
// command gets the signal once, from the worker.
func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s", "-relay"}, "-tidy", "300ms", "-code", "5")
	begun(t, s.record, 1)
	send(t, -s.cmd.Process.Pid, syscall.SIGINT)
	s.heard("result 5")
	<-s.exited
	var got []string
	for _, e := range readRecord(t, s.record) {
		if strings.HasPrefix(e.what, "got") {
			got = append(got, e.what)
		}
	}
	if len(got) != 1 || got[0] != "got interrupt" {
		t.Errorf("the command got %q, want one interrupt", got)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("the worker exited with %d, want the command's 5", code)
	}
}

// Field case 93: other signals are passed on too, to the command alone.
func TestOtherSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s", "-relay"}, "-tree")
	begun(t, s.record, treeSize)
	s.signal(syscall.SIGUSR1)
	got := func() map[string]int {
		m := map[string]int{}
		for _, e := range readRecord(t, s.record) {
			m[e.what]++
		}
		return m
	}
	eventually(t, 5*time.Second, "the command gets SIGUSR1", func() bool { return got()["got user defined signal 1"] > 0 })
	s.signal(syscall.SIGTERM)
	s.heard("signal terminated")
	<-s.exited
	s.gone(time.Second)
	if n := got()["got user defined signal 1"]; n != 1 {
		t.Errorf("%d processes got SIGUSR1, want the command alone", n)
	}
	if n := got()["end"]; n != 1 {
		t.Errorf("the command tidied up %d times, want once", n)
	}
}

// Field case 93: what others leave behind is collected, and a guard is not
// taken from under its worker.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	s := stage(t, []string{"-valid", "60s", "-relay", "-reap"}, "-orphan")
	if got := s.heard("result"); !strings.HasPrefix(got, "result 137") && !strings.HasPrefix(got, "result 0") {
		t.Errorf("the worker says %q", got)
	}
	s.gone(time.Second)

	s = stage(t, []string{"-valid", "60s", "-relay", "-reap"}, tree...)
	begun(t, s.record, treeSize)
	s.heard("guard")
	guard, _ := s.now()
	// With the guard dead, the worker inherits all that descended from it.
	send(t, guard, syscall.SIGKILL)
	s.heard("result 1 true")
	s.gone(5 * time.Second)
}
