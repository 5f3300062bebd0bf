package tcpproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaderbridge/leaderbridge/test/testenv/tcpproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestProxyFailsAsTold(t *testing.T) {
	p := tcpproxy.Start(t, echo(t))
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c, bufio.NewReader(c)
	}
	say := func(c net.Conn, line string) {
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(c net.Conn, r *bufio.Reader, limit time.Duration) (string, error) {
		if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		return r.ReadString('\n')
	}
	const soon, patience = 50 * time.Millisecond, 10 * time.Second

	c, r := dial()
	say(c, "one")
	if got, err := hear(c, r, patience); got != "one\n" {
		t.Fatalf("heard %q, %v", got, err)
	}

	p.Freeze()
	say(c, "two")
	if got, err := hear(c, r, soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v through a frozen proxy", got, err)
	}
	p.Thaw()
	if got, err := hear(c, r, patience); got != "two\n" {
		t.Fatalf("heard %q, %v after the thaw", got, err)
	}

	p.Blackhole()
	say(c, "three")
	if got, err := hear(c, r, soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v through a black hole", got, err)
	}
	d, s := dial()
	say(d, "four")
	if got, err := hear(d, s, patience); got != "four\n" {
		t.Fatalf("heard %q, %v on a new connection", got, err)
	}

	p.Cut()
	if got, err := hear(d, s, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v on a connection that was cut", got, err)
	}
}
