package proto

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A private daemon writes one of these, or an error, and a newline to the pipe of the
// `gorxe run` that started it.
const (
	ReadyWord = "ready"
	RunsWord  = "another daemon was faster"
)

// readyFD is the pipe's descriptor.
const readyFD = 3

// Ready is that pipe.
type Ready struct{ pipe *os.File }

// NewReady takes over the pipe. It fails in a process that was started without one.
func NewReady() (*Ready, error) {
	if _, err := unix.FcntlInt(readyFD, unix.F_GETFD, 0); err != nil {
		return nil, errors.New("--private is for the daemons that `gorxe run` starts")
	}
	unix.CloseOnExec(readyFD)
	return &Ready{pipe: os.NewFile(readyFD, "ready pipe")}, nil
}

// Say tells the outcome of Start.
func (r *Ready) Say(err error) {
	word := ReadyWord
	switch {
	case errors.Is(err, ErrDaemonRuns):
		word = RunsWord
	case err != nil:
		word = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Fprintln(r.pipe, word)
}

// AwaitEnd returns when the `gorxe run` has closed its end: it has a session, or it has died.
func (r *Ready) AwaitEnd() {
	fds := []unix.PollFd{{Fd: readyFD}} // POLLERR needs no asking
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			r.pipe.Close()
			return
		}
	}
}
