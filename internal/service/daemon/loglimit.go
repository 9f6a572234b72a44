package daemon

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// A program can repeat an error ten thousand times a second. So the log takes only a few
// lines a minute of each message about each user, whatever the attributes. The next line
// says how many were left out.
const (
	logBurst   = 20
	logWindow  = time.Minute
	fewWindows = 1024 // too few to sweep
)

// leftOut is the attribute with the number of lines that were left out.
const leftOut = "left_out"

// logLimit counts lines. The zero value is ready.
type logLimit struct {
	mu      sync.Mutex
	windows map[logKey]*window
	sweepAt int
}

// logKey is what logLimit counts: a message, which is a constant in the code, and its
// subject.
type logKey struct {
	about   any
	message string
}

type window struct {
	begin       time.Time
	lines, lost int
}

// logger returns log within the limit. Each subject (about) has its own limit.
func (l *logLimit) logger(log *slog.Logger, about any) *slog.Logger {
	return slog.New(limitedLog{log.Handler(), l, about})
}

// admit reports whether the log takes one more line at that time, and how many it left out
// before.
func (l *logLimit) admit(key logKey, now time.Time) (lost int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.windows[key]
	if w == nil {
		w = &window{begin: now}
		l.add(key, w)
	}
	if now.Sub(w.begin) >= logWindow {
		lost = w.lost
		*w = window{begin: now}
	}
	if w.lines >= logBurst {
		w.lost++
		return 0, false
	}
	w.lines++
	return lost, true
}

// add begins to count a key. It sweeps old keys, because new users may keep coming.
func (l *logLimit) add(key logKey, w *window) {
	if l.windows == nil {
		l.windows, l.sweepAt = make(map[logKey]*window), fewWindows
	}
	if len(l.windows) >= l.sweepAt {
		maps.DeleteFunc(l.windows, func(_ logKey, old *window) bool { return w.begin.Sub(old.begin) >= logWindow })
		l.sweepAt = max(2*len(l.windows), fewWindows)
	}
	l.windows[key] = w
}

// limitedLog is a handler within a limit.
type limitedLog struct {
	slog.Handler
	limit *logLimit
	about any
}

// Handle implements slog.Handler. Debug lines have no limit.
func (h limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		lost, ok := h.limit.admit(logKey{h.about, r.Message}, r.Time)
		if !ok {
			return nil
		}
		if lost > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int(leftOut, lost))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h limitedLog) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
