package daemon

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// What a program does wrong it can do ten thousand times a second. Of each message,
// with whatever attributes, the log takes a few a minute about each user, and says
// of the next one how many there would have been.
const (
	logBurst   = 20
	logWindow  = time.Minute
	fewWindows = 1024 // are not worth a sweep
)

// leftOut is the attribute with the number of lines that the log did not take.
const leftOut = "left_out"

// logLimit counts lines. The zero value is ready.
type logLimit struct {
	mu      sync.Mutex
	windows map[logKey]*window
	sweepAt int
}

// logKey is what is counted: a message, which is a constant of the code's, and
// whom it is about.
type logKey struct {
	about   any
	message string
}

type window struct {
	begin       time.Time
	lines, lost int
}

// logger is log within the limit. Lines about somebody have a limit of their own.
func (l *logLimit) logger(log *slog.Logger, about any) *slog.Logger {
	return slog.New(limitedLog{log.Handler(), l, about})
}

// admit reports whether the log takes one more line at that time, and how many it
// did not take before.
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

// add begins to count. There may be ever new users.
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

// Handle implements slog.Handler. Who wants to debug wants it all.
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
