package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// envBorn tells a process that was born of itself: its number, its signal mask and
// its name before, separated by blanks.
const envBorn = "GORXE_BORN"

// born makes this a process that was born with the forwarded signals blocked, which
// an inbox needs: it executes itself, once. It returns the signal mask before.
func born() (mask unix.Sigset_t, err error) {
	// Of another process it says nothing.
	if told := strings.SplitN(os.Getenv(envBorn), " ", 3); len(told) == 3 && told[0] == strconv.Itoa(os.Getpid()) {
		_ = os.Unsetenv(envBorn) // cannot fail
		// It was named after the file that it executed. To look at only.
		_ = os.WriteFile("/proc/self/comm", []byte(told[2]), 0)
		return parseMask(told[1])
	}
	mask = currentMask()
	name, err := os.ReadFile("/proc/self/comm")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: /proc is not mounted here: mount -t proc proc /proc", err)
	}
	if err != nil {
		return mask, err
	}
	err = withBlocked(func() error {
		told := []string{strconv.Itoa(os.Getpid()), formatMask(mask), strings.TrimSuffix(string(name), "\n")}
		return syscall.Exec(self, os.Args, append(os.Environ(), envBorn+"="+strings.Join(told, " ")))
	})
	return mask, fmt.Errorf("starting with signals blocked: %w", err)
}
