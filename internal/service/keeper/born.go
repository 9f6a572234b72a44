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

// envBorn marks a process that executed itself. It has the process number, the signal mask
// and the earlier name, separated by blanks.
const envBorn = "GORXE_BORN"

// born makes this process start with the forwarded signals blocked, which an inbox needs.
// It executes itself, once, and returns the earlier signal mask.
func born() (mask unix.Sigset_t, err error) {
	// The variable of another process means nothing here.
	if told := strings.SplitN(os.Getenv(envBorn), " ", 3); len(told) == 3 && told[0] == strconv.Itoa(os.Getpid()) {
		_ = os.Unsetenv(envBorn) // cannot fail
		// The process has the name of the file that it executed. This is for ps only.
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
