package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/trap"
)

// sink is a log that several goroutines write.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// lines are those with a text in them.
func (s *sink) lines(with string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.buf.String()) {
		if strings.Contains(line, with) {
			list = append(list, line)
		}
	}
	return list
}

func (s *sink) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: level}))
}

func TestLogLimit(t *testing.T) {
	var out sink
	var limit logLimit
	one := limit.logger(out.logger(slog.LevelDebug), uint32(1)).With("uid", 1)
	two := limit.logger(out.logger(slog.LevelDebug), uint32(2)).WithGroup("g").With("uid", 2)
	start := time.Now()
	say := func(log *slog.Logger, level slog.Level, message string, after time.Duration) {
		r := slog.NewRecord(start.Add(after), level, message, 0)
		if err := log.Handler().Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		say(one, slog.LevelError, "refused", time.Duration(i)*time.Millisecond)
		say(one, slog.LevelDebug, "detail", 0)
	}
	say(one, slog.LevelError, "other", 0)
	say(two, slog.LevelError, "refused", 0)
	say(one, slog.LevelError, "refused", logWindow)
	say(one, slog.LevelError, "refused", logWindow)
	for with, want := range map[string]int{
		"msg=refused uid=1": logBurst + 2, "g.uid=2": 1, "msg=other": 1, "msg=detail": 1000, leftOut: 1, "uid=1 left_out=980": 1,
	} {
		if got := len(out.lines(with)); got != want {
			t.Errorf("%d lines with %q, want %d", got, with, want)
		}
	}
}

// The limit forgets users that are gone.
func TestLogLimitForgets(t *testing.T) {
	var limit logLimit
	start := time.Now()
	for i := range 10 * fewWindows {
		limit.admit(logKey{i, "m"}, start.Add(time.Duration(i)*logWindow/fewWindows))
	}
	if n := len(limit.windows); n > 3*fewWindows {
		t.Errorf("%d users are remembered", n)
	}
}

// A program that asks for what it cannot have, over and over, does not fill the
// log.
func TestHostileLog(t *testing.T) {
	var out sink
	s := startTest(t, Config{UserMemory: 1 << 20, Log: out.logger(slog.LevelInfo)}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
		for range 5000 {
			f, err := cfg.Host.Open(&tree.Node{DeviceName: "rxe0"}, trap.Credentials{})
			if err == nil {
				defer f.Close()
			}
		}
		return nil
	})
	c := s.attached(t)
	if err := c.Questions(nil, nil); err != nil {
		t.Error(err)
	}
	if n := len(out.lines("cannot open a device")); n != logBurst {
		t.Errorf("%d lines, want %d", n, logBurst)
	}
	if len(out.lines("msg=attached")) != 1 {
		t.Error("other lines are left out")
	}
}
