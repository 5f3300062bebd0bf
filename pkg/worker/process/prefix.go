//go:build unix

package process

import (
	"bytes"
	"io"
	"sync"
)

// longestLine bounds the memory for a line that does not end.
const longestLine = 64 << 10

// prefixer writes each line with a prefix, one Write for each, so that the
// lines of several prefixers on one file do not mix.
type prefixer struct {
	w      io.Writer
	prefix string

	mu   sync.Mutex
	line []byte // begins with the prefix when not empty
}

func (p *prefixer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := len(b)
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		if n == 0 {
			n = len(b)
		}
		n = min(n, longestLine)
		if len(p.line) == 0 {
			p.line = append(p.line, p.prefix...)
		}
		p.line = append(p.line, b[:n]...)
		b = b[n:]
		if p.line[len(p.line)-1] == '\n' || len(p.line) >= longestLine {
			if err := p.flushLocked(); err != nil {
				return total - len(b), err
			}
		}
	}
	return total, nil
}

// flush writes a last line that has no end, and ends it.
func (p *prefixer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) == 0 {
		return nil
	}
	return p.flushLocked()
}

func (p *prefixer) flushLocked() error {
	if p.line[len(p.line)-1] != '\n' {
		p.line = append(p.line, '\n')
	}
	_, err := p.w.Write(p.line)
	p.line = p.line[:0]
	return err
}
