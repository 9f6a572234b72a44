package procfs

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestStatus(t *testing.T) {
	st, err := ReadStatus(os.Getpid())
	want := Status{TGID: os.Getpid(), PPID: os.Getppid(), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if err != nil || st != want {
		t.Errorf("%+v, %v; want %+v", st, err, want)
	}
	if _, err := ReadStatus(0); !errors.Is(err, ErrInvisible) {
		t.Errorf("thread 0: %v", err)
	}
	if s := Image(os.Getpid()); len(strings.Fields(s)) != 7 {
		t.Errorf("image %q", s)
	}
	if s := Image(-1); s != "" {
		t.Errorf("image of nothing %q", s)
	}
}
