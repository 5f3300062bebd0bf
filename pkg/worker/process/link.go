//go:build unix

package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderbridge/leaderbridge/internal/boottime"
)

// order is what a worker tells its guard.
type order struct {
	// Run numbers the runs of one guard; orders for another run are ignored.
	Run      uint64
	Start    *launch          `json:",omitempty"`
	Deadline boottime.Instant `json:",omitempty"`
	Stop     bool             `json:",omitempty"`
	Signal   syscall.Signal   `json:",omitempty"`
}

// launch is the command to start; its standard files travel beside it.
type launch struct {
	Path string
	Args []string
	Env  []string
	Dir  string
	Plan plan
}

// report is what a guard tells its worker.
type report struct {
	Run uint64
	// Ready is sent once, when the guard has begun.
	Ready bool `json:",omitempty"`
	// Started is the process id, and process group, of the command.
	Started int `json:",omitempty"`
	// Killing is sent once, when the guard has begun to kill what is left.
	Killing bool    `json:",omitempty"`
	Exited  *ending `json:",omitempty"`
}

// ending is how a run ended. Nothing of the command is left then.
type ending struct {
	Code   int
	Signal syscall.Signal `json:",omitempty"`
	// NotStarted is the error for which the command was not started.
	NotStarted syscall.Errno `json:",omitempty"`
	// TooLate: it was not started because the grant was as good as over.
	TooLate bool `json:",omitempty"`
	// Lapsed is the deadline because of which the command was asked to stop, or
	// killed, without an order; zero when that is not why.
	Lapsed boottime.Instant `json:",omitempty"`
}

// link is one end of the socket between worker and guard: lines of JSON, and
// file descriptors. One goroutine may send while another receives. The end of
// the peer's process ends the stream, whatever the process died of.
type link struct {
	c   *net.UnixConn
	buf []byte
	fds []int
}

// sendTimeout bounds a send to a peer that does not read, because it is
// stopped: the socket's buffer holds hours of messages.
const sendTimeout = time.Second

// standardFiles is the number of descriptors that travel with a launch.
const standardFiles = 3

// socketpair returns two connected sockets that are not inherited.
func socketpair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "worker"), nil
}

// newLink takes over f, which must be a connected socket.
func newLink(f *os.File) (*link, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %s is not a Unix socket", f.Name())
	}
	return &link{c: u}, nil
}

func (l *link) send(v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if err := l.c.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	n, _, err := l.c.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = l.c.Write(b[n:])
	}
	return err
}

// receive reads the next message into v.
func (l *link) receive(v any) error {
	for {
		if i := bytes.IndexByte(l.buf, '\n'); i >= 0 {
			err := json.Unmarshal(l.buf[:i], v)
			l.buf = l.buf[i+1:]
			return err
		}
		if err := l.read(); err != nil {
			return err
		}
	}
}

func (l *link) read() error {
	p := make([]byte, 16<<10)
	oob := make([]byte, unix.CmsgSpace(standardFiles*4))
	n, oobn, _, _, err := l.c.ReadMsgUnix(p, oob)
	if err != nil {
		return err
	}
	if n == 0 && oobn == 0 {
		return io.EOF
	}
	l.buf = append(l.buf, p[:n]...)
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		l.fds = append(l.fds, fds...)
	}
	return nil
}

// takeFiles returns the descriptors that came with the last launch.
func (l *link) takeFiles() []int {
	fds := l.fds
	l.fds = nil
	return fds
}

func (l *link) close() { l.c.Close() }
