package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// lines returns what was written since the last call.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.TrimSuffix(o.b.String(), "\n")
	o.b.Reset()
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func logger(tb testing.TB, o Options) (*slog.Logger, *output) {
	tb.Helper()
	var out output
	l, err := New(&out, o)
	if err != nil {
		tb.Fatal(err)
	}
	return l, &out
}

func TestFormats(t *testing.T) {
	l, out := logger(t, Options{})
	l.Info("leads", "epoch", 7)
	if got := out.lines(); len(got) != 1 || !strings.Contains(got[0], "level=INFO msg=leads epoch=7") {
		t.Errorf("text: %q", got)
	}
	l, out = logger(t, Options{Format: JSON, Level: slog.LevelDebug})
	l.Debug("leads", "epoch", 7)
	var line map[string]any
	if got := out.lines(); len(got) != 1 || json.Unmarshal([]byte(got[0]), &line) != nil || line["epoch"] != 7.0 {
		t.Errorf("JSON: %q", got)
	}
	if _, err := New(out, Options{Format: "xml"}); err == nil || err.Error() != `log format "xml": want text or json` {
		t.Errorf("err = %v", err)
	}
}

func TestLinesCarryTheTrace(t *testing.T) {
	l, out := logger(t, Options{})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	l.With("a", 1).InfoContext(ctx, "leads")
	l.InfoContext(t.Context(), "leads")
	got := out.lines()
	if want := "trace_id=" + span.TraceID().String() + " span_id=" + span.SpanID().String(); !strings.Contains(got[0], want) {
		t.Errorf("%q has no %q", got[0], want)
	}
	if strings.Contains(got[1], "trace_id") {
		t.Errorf("%q has a trace", got[1])
	}
}

// Field case 38: client-go's own logger is ours too.
func TestLibrariesAreRouted(t *testing.T) {
	l, out := logger(t, Options{})
	former := slog.Default()
	defer func() {
		klog.ClearLogger()
		slog.SetDefault(former)
	}()
	TakeOver(l)
	klog.ErrorS(errors.New("refused"), "watch failed", "resource", "leases")
	klog.V(4).Info("nobody wants to know")
	log.Print("from the standard library")
	got := out.lines()
	if len(got) != 2 ||
		!strings.Contains(got[0], `level=ERROR msg="watch failed" component=client-go err=refused resource=leases`) ||
		!strings.Contains(got[1], `level=INFO msg="from the standard library"`) {
		t.Errorf("%q", got)
	}
}

// An hour of the same error every two seconds is a handful of lines (field
// cases 23 and 38), with nothing lost of how often.
func TestRepeatedErrorIsFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logger(t, Options{})
		said := 0
		for i := range 1800 {
			l.Warn("append to the log", "error", fmt.Errorf("dial 127.0.0.1:%d: refused", 40000+i), "attempt", i)
			time.Sleep(2 * time.Second)
		}
		for i, line := range out.lines() {
			var repeated int
			if _, after, ok := strings.Cut(line, "repeated="); ok {
				if _, err := fmt.Sscan(after, &repeated); err != nil {
					t.Fatal(err)
				}
			}
			if (repeated == 0) != (i == 0) {
				t.Errorf("line %d: %s", i, line)
			}
			said += max(1, repeated)
			if i > 7 {
				t.Errorf("line %d: %s", i, line)
			}
		}
		if said < 1700-450 || said > 1800 {
			t.Errorf("the lines tell of %d of 1800", said)
		}
		time.Sleep(2*foldEvery + time.Second)
		got := out.lines()
		if len(got) == 0 || !strings.Contains(got[len(got)-1], `level=INFO msg="an error has not come back" was="append to the log" times=1800`) {
			t.Errorf("afterwards: %q", got)
		}
		l.Warn("append to the log", "error", errors.New("dial 127.0.0.1:4: refused"))
		if got := out.lines(); len(got) != 1 || strings.Contains(got[0], "repeated") {
			t.Errorf("the next time: %q", got)
		}
		time.Sleep(time.Hour)
		if got := out.lines(); len(got) != 0 {
			t.Errorf("an error that came once: %q", got)
		}
	})
}

func TestCountsComeAtMostOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logger(t, Options{})
		var times []time.Time
		for range 3600 {
			l.Error("no", "error", errors.New("x"))
			for range out.lines() {
				times = append(times, time.Now())
			}
			time.Sleep(time.Second)
		}
		for i := 1; i < len(times); i++ {
			if d := times[i].Sub(times[i-1]); d < foldEvery || d > foldMost+time.Second {
				t.Errorf("%s between lines %d and %d", d, i-1, i)
			}
		}
		if len(times) < 5 {
			t.Errorf("%d lines", len(times))
		}
		time.Sleep(time.Hour)
	})
}

func TestWhatIsTheSameError(t *testing.T) {
	x := errors.New("x")
	for name, tc := range map[string]struct {
		log  func(l *slog.Logger)
		want int
	}{
		"other message":  {func(l *slog.Logger) { l.Warn("a"); l.Warn("b") }, 2},
		"other level":    {func(l *slog.Logger) { l.Warn("a"); l.Error("a") }, 2},
		"other error":    {func(l *slog.Logger) { l.Warn("a", "error", x); l.Warn("a", "error", errors.New("y")) }, 2},
		"other election": {func(l *slog.Logger) { l.Warn("a", "lease", "l1"); l.Warn("a", "lease", "l2") }, 2},
		"other scope":    {func(l *slog.Logger) { l.With("lease", "l1").Warn("a"); l.With("lease", "l2").Warn("a") }, 2},
		"other group":    {func(l *slog.Logger) { l.WithGroup("g").Warn("a"); l.WithGroup("h").Warn("a") }, 2},
		"inner group":    {func(l *slog.Logger) { l.Warn("a", slog.Group("g", "k", "1")); l.Warn("a", slog.Group("g", "k", "2")) }, 2},
		"other number":   {func(l *slog.Logger) { l.Warn("a", "n", 1, "d", time.Second); l.Warn("a", "n", 2, "d", time.Minute) }, 1},
		"other port": {func(l *slog.Logger) {
			l.Warn("a", "error", errors.New("read :123"))
			l.Warn("a", "error", errors.New("read :45"))
		}, 1},
		"same scope":    {func(l *slog.Logger) { l.With("lease", "l").Warn("a"); l.With("lease", "l").Warn("a") }, 1},
		"below warning": {func(l *slog.Logger) { l.Info("a"); l.Info("a") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, out := logger(t, Options{})
				tc.log(l)
				if got := out.lines(); len(got) != tc.want {
					t.Errorf("%q, want %d", got, tc.want)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestSpansDoNotTellErrorsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logger(t, Options{})
		for i := range 3 {
			ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{byte(i + 1)}, SpanID: trace.SpanID{1}}))
			l.ErrorContext(ctx, "a")
		}
		if got := out.lines(); len(got) != 1 {
			t.Errorf("%q", got)
		}
		time.Sleep(foldEvery + time.Second)
		if got := out.lines(); len(got) != 1 || !strings.Contains(got[0], "repeated=2") {
			t.Errorf("the count: %q", got)
		}
		time.Sleep(time.Hour)
	})
}

// A flood of different errors must not fill the memory, nor be held back.
func TestFoldingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logger(t, Options{})
		for i := range 4 * maxFolded {
			l.Error("a", "name", fmt.Sprint(i))
		}
		if got := len(out.lines()); got != 4*maxFolded {
			t.Errorf("%d lines", got)
		}
		remembered := func() int {
			h, ok := l.Handler().(traced)
			if !ok {
				t.Fatalf("the handler is a %T", l.Handler())
			}
			folds, ok := h.Handler.(*folding)
			if !ok {
				t.Fatalf("the next handler is a %T", h.Handler)
			}
			f := folds.state
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.open)
		}
		if n := remembered(); n != maxFolded {
			t.Errorf("%d are remembered", n)
		}
		time.Sleep(time.Hour)
		if n := remembered(); n != 0 {
			t.Errorf("%d are remembered for ever", n)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := logger(t, Options{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 200 {
					l.Warn("a", "name", fmt.Sprint(i%10))
					time.Sleep(time.Second)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Hour)
	})
}
