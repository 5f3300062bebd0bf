package natsenv

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// logLines is how much of a server's log a failed test shows.
const logLines = 400

// log keeps the last lines that a server logged. It implements server.Logger
// and is safe for concurrent use.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) Noticef(format string, v ...any) { l.add("INF", format, v) }
func (l *log) Warnf(format string, v ...any)   { l.add("WRN", format, v) }
func (l *log) Errorf(format string, v ...any)  { l.add("ERR", format, v) }
func (l *log) Debugf(format string, v ...any)  { l.add("DBG", format, v) }
func (l *log) Tracef(format string, v ...any)  { l.add("TRC", format, v) }

// Fatalf is called when the server cannot go on, such as for a port that is
// taken. The server returns afterwards, and the test finds it not ready.
func (l *log) Fatalf(format string, v ...any) { l.add("FTL", format, v) }

func (l *log) add(level, format string, v []any) {
	line := time.Now().Format("15:04:05.000000 ") + level + " " + fmt.Sprintf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == logLines {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, line)
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
