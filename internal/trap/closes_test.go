package trap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"golang.org/x/sys/unix"
)

// notified is a session that has no program, and what hears of its closes.
func notified(t *testing.T, c *Closes) *Session {
	t.Helper()
	s := &Session{cfg: ServeConfig{Closes: c}, listener: -1}
	s.house = &house{s: s, wake: make(chan struct{}, 1)}
	c.join(s.house)
	return s
}

// lostEvents reports whether the session heard that events were lost.
func (h *house) lostEvents() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.news.overflow
}

// takeNews returns the watches whose files were closed.
func (h *house) takeNews() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	watches := h.news.watches
	h.news.watches = nil
	return watches
}

// watchesOf returns how many files an inotify instance watches (fs/notify/fdinfo.c).
func watchesOf(t *testing.T, notify *os.File) (n int) {
	t.Helper()
	err := control(notify, func(fd int) error {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		n = strings.Count(string(info), "inotify wd:")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCloses: more sessions than a user may have inotify instances share one, and
// each hears of its own files.
func TestCloses(t *testing.T) {
	const sessions = 300
	c := new(Closes)
	var all []*Session
	var fds, watches []int
	for range sessions {
		s := notified(t, c)
		fd, err := sealed.ReadOnly("gorxe-test", nil)
		if err != nil {
			t.Fatal(err)
		}
		wd, err := c.watch(fd, s.house)
		if err != nil {
			t.Fatal(err)
		}
		all, fds, watches = append(all, s), append(fds, fd), append(watches, wd)
	}
	notify := c.notify
	if n := watchesOf(t, notify); n != sessions {
		t.Errorf("the inotify instance watches %d files for %d sessions", n, sessions)
	}
	for i, s := range all {
		unix.Close(fds[i])
		var news []int
		must.Eventually(t, "the session hears of its file", func() bool {
			news = append(news, s.house.takeNews()...)
			return len(news) > 0
		})
		if len(news) != 1 || news[0] != watches[i] {
			t.Errorf("session %d hears of %v, want %d", i, news, watches[i])
		}
		c.unwatch(watches[i])
	}
	c.tell(c.notify, -1, unix.IN_Q_OVERFLOW)
	for i, s := range all {
		if !s.house.lostEvents() {
			t.Errorf("session %d does not hear that events were lost", i)
		}
		if news := s.house.takeNews(); len(news) != 0 {
			t.Errorf("session %d hears of %v, which is not its", i, news)
		}
		c.leave(s.house)
	}
	if err := notify.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the inotify instance is left: %v", err)
	}
	if _, err := c.watch(0, all[0].house); err != unix.ENODEV {
		t.Errorf("watch of a session that has ended: %v", err)
	}
}

// TestClosesLate: an event of an instance that was given up means no file that is
// watched with the next one, whose watches have the same numbers.
func TestClosesLate(t *testing.T) {
	c := new(Closes)
	watched := func() (*Session, *os.File, int) {
		s := notified(t, c)
		fd, err := sealed.ReadOnly("gorxe-test", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		wd, err := c.watch(fd, s.house)
		if err != nil {
			t.Fatal(err)
		}
		return s, c.notify, wd
	}
	before, old, number := watched()
	c.unwatch(number)
	c.leave(before.house)
	s, _, wd := watched()
	if wd != number {
		t.Fatalf("watch %d after watch %d: there is nothing to mistake", wd, number)
	}
	c.tell(old, number, unix.IN_CLOSE_NOWRITE)
	c.tell(old, -1, unix.IN_Q_OVERFLOW)
	if news := s.house.takeNews(); len(news) != 0 || s.house.lostEvents() {
		t.Errorf("hears of %v, lost events %v", news, s.house.lostEvents())
	}
	c.unwatch(wd)
	c.leave(s.house)
}

// limitEnv gives the tests a user namespace with so many inotify instances.
const limitEnv = "GORXE_TRAP_INOTIFY"

func limitInotify(instances string) error {
	return os.WriteFile("/proc/sys/user/max_inotify_instances", []byte(instances), 0)
}

// TestWithoutInotify runs tests again where the user has no inotify instance left. Files then
// stay open until their program has ended, and nothing else changes.
func TestWithoutInotify(t *testing.T) {
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout=10m",
		"-test.run=^Test(Files|Descriptors|Forks|Kill|Stop|IbvDevinfo|Pingpong)$")
	cmd.Env = append(os.Environ(), limitEnv+"=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	// Package syscall leaves a pipe open if the kernel refuses this clone: leakless would find it.
	if out, err := exec.Command("unshare", "--user", "true").CombinedOutput(); err != nil {
		testenv.Missing(t, "user namespaces: %v: %s", err, out)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"stay open until it ends", "fs.inotify.max_user_instances"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
	if n := strings.Count(string(out), "--- PASS: Test"); n != 7 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
