//go:build unix

// Package process runs a command for as long as a term lasts, and makes sure
// that nothing of it is left at the term's deadline, also when the program that
// started it is killed, stopped or hangs.
//
// Between the program (the worker) and the command stands a small guard: the
// same executable, started again. The guard holds the deadline. The worker
// tells it later ones while the grant is renewed. When the deadline comes
// near, or the worker is gone, or the worker says so, the guard asks the
// command to stop with SIGTERM, early enough that SIGKILL for whatever is left
// still falls before the deadline.
//
// The guard is part of the program that uses this package, which must let it
// run, before anything else:
//
//	func main() {
//		process.MaybeGuard()
//		…
//	}
//
// The same goes for TestMain in tests. Then
//
//	r, err := process.New(process.Command{Path: "rsync", Args: []string{"-a", "from/", "to"}})
//	…
//	defer r.Close()
//	err = grant.Run(r.Handle, nil)
//
// [Runner.HandleEvent] makes a short run for one event instead, which is on the
// command's standard input; what it writes to its standard output is published.
// Package feed calls it for each event of an election.
//
// # What is guaranteed
//
// On Linux everything that descends from the command is dead at the deadline,
// whatever process group or session it has moved to, when any one of these
// happens: the worker is killed, stopped, or hangs; the guard is killed or
// stopped; the command ignores SIGTERM or leaves children behind. When the
// command itself ends, its leftovers are ended too.
//
// # What is not
//
//   - Worker and guard killed at the same moment: the kernel kills the command
//     itself, but not its children. (In a container where the worker is PID 1,
//     the kernel kills everything.) The guard has another process name than
//     the worker, so that killing by name does not hit both.
//   - Worker and guard stopped at the same moment, and the command not: nothing
//     ends the command until one of them goes on.
//   - Programs that are not descendants because the command asked another
//     service to start them (systemd-run, docker, at), and those running under
//     another user that the guard may not signal.
//   - After a suspend of the machine, or a freeze of the whole container, in
//     which the deadline has passed, everything goes on at once: the command
//     may run for up to 0.2 s before it is killed.
//
// On other systems than Linux only the command's process group is ended, and
// the kernel does not kill the command when the guard is killed: the worker
// does then.
//
// The command should hand LEADERBRIDGE_EPOCH to whatever it writes to, which
// can then refuse an older writer; that is the protection that none of the
// above limits.
package process
