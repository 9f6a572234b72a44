package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Colors reports whether w shall have colors: NO_COLOR forbids them, CLICOLOR_FORCE wants them
// everywhere, and otherwise a terminal has them.
func Colors(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return Is(w) && os.Getenv("TERM") != "dumb"
}

// Keys makes a terminal give each key at once, and not show it. The function that it returns
// undoes that.
func Keys(f *os.File) (undo func(), err error) {
	was, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	now := *was
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &now); err != nil {
		return nil, err
	}
	return func() {
		// nothing helps if this fails
		_ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, was)
	}, nil
}
