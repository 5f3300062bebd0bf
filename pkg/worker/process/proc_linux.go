package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// disguise gives the process the guard's name.
func disguise() { _ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) }

// hurry asks the kernel to run this process before others, so that a busy
// machine does not hold up the guard at the moment it has to kill. That takes
// a privilege (CAP_SYS_NICE, or RLIMIT_RTPRIO) and is done without otherwise.
//
// Commands do not inherit it, since the calling thread starts them, to which
// the main goroutine must be locked. The returned function gives one of them
// the priority that this process had before.
func hurry() (calm func(pid int)) {
	before, err := unix.SchedGetAttr(0, 0)
	threads, err2 := os.ReadDir("/proc/self/task")
	if err != nil || err2 != nil {
		return func(int) {}
	}
	self := unix.Gettid()
	calm = func(int) {}
	for _, e := range threads {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
		if tid == self {
			attr.Flags = unix.SCHED_FLAG_RESET_ON_FORK
		}
		if unix.SchedSetAttr(tid, attr, 0) == nil && tid == self {
			calm = func(pid int) { _ = unix.SchedSetAttr(pid, before, 0) }
		}
	}
	return calm
}

// adoptOrphans makes orphaned descendants children of this process. It reports
// whether that works.
func adoptOrphans() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// commandAttr puts a command in a session of its own, so that the terminal's
// signals do not reach it, and lets the kernel kill it when the guard is
// killed.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// guardPath names the program that runs, also when its file was replaced.
func guardPath() (string, error) { return "/proc/self/exe", nil }

// proc identifies a process: a number alone may be given to another one.
type proc struct {
	pid    int
	parent int
	state  byte
	start  string
}

// signal sends sig unless the number belongs to another process by now.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if err == unix.ENOSYS { // before Linux 5.3
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readProc(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// isStill reports whether the number still belongs to this process.
func (p proc) isStill() bool {
	now, ok := readProc(p.pid)
	return ok && p.pid != 0 && now.start == p.start
}

func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(b)
}

// parseStat reads the line of /proc/PID/stat; see proc_pid_stat(5). The name
// in parentheses may itself contain parentheses and spaces.
func parseStat(b []byte) (proc, bool) {
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || shut < open {
		return proc{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	rest := strings.Fields(string(b[shut+1:]))
	if err != nil || len(rest) < 20 || len(rest[0]) != 1 {
		return proc{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	if err != nil {
		return proc{}, false
	}
	return proc{pid: pid, parent: parent, state: rest[0][0], start: rest[19]}, true
}

// listProcs returns every process that is visible.
func listProcs() []proc {
	if !procIsOurs() {
		return nil
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var all []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// procIsOurs tells whether /proc is there and numbers processes as this
// process sees them, which it does not when it shows another PID namespace.
var procIsOurs = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// children returns the children of a process from the lists that the kernel
// keeps for each of its threads; see proc_tid_children(5). Such a list may lack
// an entry when another child ends while it is read, so whoever must find all
// looks again. It reports false when the kernel was built without them.
func children(pid int) (list []int, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	d, err := os.Open(dir)
	if err != nil {
		return nil, true // it has ended
	}
	defer d.Close()
	threads, _ := d.Readdirnames(-1)
	for _, tid := range threads {
		b, err := os.ReadFile(dir + tid + "/children")
		if err != nil {
			continue
		}
		ok = true
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				list = append(list, n)
			}
		}
	}
	return list, ok
}

// descendants returns all that descend from root and still run. It reports
// false when it cannot know, because /proc is not there.
func descendants(root int) (found []proc, ok bool) {
	if !procIsOurs() {
		return nil, false
	}
	kids := children
	if _, ok := children(root); !ok {
		byParent := map[int][]int{}
		for _, p := range listProcs() {
			byParent[p.parent] = append(byParent[p.parent], p.pid)
		}
		kids = func(pid int) ([]int, bool) { return byParent[pid], true }
	}
	seen := map[int]bool{root: true} // what is read while it changes may hold a circle
	for next := []int{root}; len(next) > 0; next = next[1:] {
		list, _ := kids(next[0])
		for _, pid := range list {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			next = append(next, pid)
			if p, ok := readProc(pid); ok && p.state != 'Z' && p.state != 'X' {
				found = append(found, p)
			}
		}
	}
	return found, true
}

// signalDescendants signals everything that descends from this process. It
// reports false when it cannot know what does.
func signalDescendants(sig syscall.Signal) bool {
	list, ok := descendants(os.Getpid())
	for _, p := range list {
		p.signal(sig)
		if sig != syscall.SIGKILL {
			p.signal(syscall.SIGCONT)
		}
	}
	return ok
}

// withMarker returns the processes whose environment holds the given entry.
func withMarker(entry string) []proc {
	var found []proc
	for _, p := range listProcs() {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err != nil || p.state == 'Z' {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if string(v) == entry {
				found = append(found, p)
				break
			}
		}
	}
	return found
}
