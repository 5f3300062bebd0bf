package logging

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// foldEvery is the shortest time between two lines about the same error,
	// and how long it must stay away to count as over.
	foldEvery = time.Minute
	// foldMost is the longest, for an error that goes on.
	foldMost = 15 * time.Minute
	// maxFolded bounds the errors that are remembered. More different ones at
	// once are written as they come.
	maxFolded = 512
)

// folding is a handler that writes a repeated error once and then its count.
type folding struct {
	next slog.Handler
	// scope is what With and WithGroup added, as part of an error's identity.
	scope string
	state *folder
}

func fold(next slog.Handler) slog.Handler {
	return &folding{next: next, state: &folder{open: map[string]*episode{}}}
}

func (h *folding) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *folding) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.scope)
	for _, a := range attrs {
		identify(&b, a)
	}
	return &folding{h.next.WithAttrs(attrs), b.String(), h.state}
}

func (h *folding) WithGroup(name string) slog.Handler {
	return &folding{h.next.WithGroup(name), h.scope + "\x00" + name, h.state}
}

func (h *folding) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || h.state.fresh(ctx, identity(h.scope, r), h.next, r) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// folder remembers the errors that go on.
type folder struct {
	mu   sync.Mutex
	open map[string]*episode
}

// episode is one error from its first line until it has stayed away.
type episode struct {
	handler slog.Handler
	// record is the latest occurrence, for the lines that follow.
	record slog.Record
	timer  *time.Timer

	since    time.Time
	total    int
	recent   int // since the last look, foldEvery ago
	unsaid   int // since the last line
	lastSaid time.Time
	pause    time.Duration // until the next line, at least
}

// fresh takes an occurrence, and tells whether it is to be written.
func (f *folder) fresh(ctx context.Context, key string, h slog.Handler, r slog.Record) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.open[key]; e != nil {
		e.total++
		e.recent++
		e.unsaid++
		e.record = r.Clone()
		return false
	}
	if len(f.open) < maxFolded {
		now := time.Now()
		e := &episode{handler: h, record: r.Clone(), since: now, total: 1, lastSaid: now, pause: foldEvery}
		ctx = context.WithoutCancel(ctx)
		e.timer = time.AfterFunc(foldEvery, func() { f.look(ctx, key, e) })
		f.open[key] = e
	}
	return true
}

// look is called every foldEvery while an episode goes on.
func (f *folder) look(ctx context.Context, key string, e *episode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if e.recent == 0 {
		delete(f.open, key)
		if e.total > 1 {
			e.over(ctx, now)
		}
		return
	}
	e.recent = 0
	e.timer.Reset(foldEvery)
	if now.Sub(e.lastSaid) >= e.pause {
		e.goesOn(ctx, now)
		e.unsaid, e.lastSaid = 0, now
		e.pause = min(2*e.pause, foldMost)
	}
}

// goesOn writes the error as it came last, with its count since the last line.
func (e *episode) goesOn(ctx context.Context, now time.Time) {
	r := e.record.Clone()
	r.Time = now
	r.AddAttrs(slog.Int("repeated", e.unsaid), slog.Time("since", e.since))
	_ = e.handler.Handle(ctx, r)
}

// over writes that the error has stayed away.
func (e *episode) over(ctx context.Context, now time.Time) {
	if !e.handler.Enabled(ctx, slog.LevelInfo) {
		return
	}
	r := slog.NewRecord(now, slog.LevelInfo, "an error has not come back", 0)
	r.AddAttrs(slog.String("was", e.record.Message), slog.Int("times", e.total), slog.Time("since", e.since))
	_ = e.handler.Handle(ctx, r)
}

// identity is what makes two records the same error: the level, the message,
// and the attributes that name things.
func identity(scope string, r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Level.String())
	b.WriteByte(0)
	b.WriteString(r.Message)
	b.WriteString(scope)
	r.Attrs(func(a slog.Attr) bool {
		identify(&b, a)
		return true
	})
	return b.String()
}

// identify adds an attribute to an identity. Strings name things. Numbers,
// times and durations are measured, and differ between occurrences of the same
// error, as do the ids of spans. In the text of an error the digits are left
// out: it has ports, versions and durations.
func identify(b *strings.Builder, a slog.Attr) {
	if a.Key == traceIDKey || a.Key == spanIDKey {
		return
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		b.WriteByte(0)
		b.WriteString(a.Key)
		b.WriteByte('=')
		b.WriteString(v.String())
	case slog.KindGroup:
		b.WriteByte(0)
		b.WriteString(a.Key)
		for _, inner := range v.Group() {
			identify(b, inner)
		}
	case slog.KindAny:
		b.WriteByte(0)
		b.WriteString(a.Key)
		b.WriteByte('=')
		if err, ok := v.Any().(error); ok {
			b.WriteString(withoutDigits(err.Error()))
		} else {
			b.WriteString(v.String())
		}
	default:
	}
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
