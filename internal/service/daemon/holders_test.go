package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestHolders: a client that wants other devices learns which programs use the daemon. It does not
// learn the names of other users' programs.
func TestHolders(t *testing.T) {
	s := startTest(t, Config{}, nil)
	if _, err := s.dial(t).Hello([]string{"left\nbehind"}, proto.Wanted{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.dial(t).Hello([]string{"other"}, proto.Wanted{Capture: "/no/such/file"})
	if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf(". Programs that use it: left behind[%d]", os.Getpid())) {
		t.Errorf("another capture: %v", err)
	}
	unsuited := &misfit{flag: "--device"}
	if got := s.named(unsuited, 4711).Error(); !strings.HasSuffix(got, "--private or --socket. Programs that use it: programs of other users") {
		t.Errorf("another user is told: %s", got)
	}
	if got := s.named(unix.EMFILE, 0); !errors.Is(got, unix.EMFILE) || got.Error() != unix.EMFILE.Error() {
		t.Errorf("another error became: %v", got)
	}
	// A program that was left in the background is a child of the keeper.
	s.mu.Lock()
	for n := range s.sessions {
		n.mu.Lock()
		n.keeper = os.Getppid()
		n.mu.Unlock()
	}
	s.mu.Unlock()
	want := fmt.Sprintf("%s[%d]", oneLine(processName(os.Getpid())), os.Getpid())
	if got := s.named(unsuited, 0).Error(); !strings.Contains(got, want) {
		t.Errorf("%s is not in: %s", want, got)
	}
}
