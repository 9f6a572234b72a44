package proto

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A private daemon writes one of these, or an error, and a newline to the pipe of the
// `gorxe run` that started it. The lines of an error have lineEnd between them.
const (
	readyWord = "ready"
	runsWord  = "another daemon was faster"
	lineEnd   = "\x00"
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
func (r *Ready) Say(err error) { say(r.pipe, err) }

func say(w io.Writer, err error) {
	word := readyWord
	switch {
	case errors.Is(err, ErrDaemonRuns):
		word = runsWord
	case err != nil:
		word = strings.ReplaceAll(err.Error(), "\n", lineEnd)
	}
	fmt.Fprintln(w, word)
}

// ReadOutcome waits until a private daemon tells the outcome of its start, and returns its error.
func ReadOutcome(r io.Reader) error {
	word, err := bufio.NewReader(r).ReadString('\n')
	switch {
	case err == nil && word == readyWord+"\n":
		return nil
	case word == "":
		return errors.New("the daemon ended before it was ready: `gorxe daemon` shows why")
	case strings.HasPrefix(word, runsWord):
		return ErrDaemonRuns
	}
	return errors.New(strings.ReplaceAll(strings.TrimSuffix(word, "\n"), lineEnd, "\n"))
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
