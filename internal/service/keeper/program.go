package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gorxe/gorxe/internal/trap/filter"
	"golang.org/x/sys/unix"
)

// Exit codes that do not come from the program, like those of env(1) and of shells.
const (
	ExitFailed        = 125 // gorxe itself failed; the program was not started
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// lookPath finds a program as execvp(3) does: a name without a slash along PATH,
// where an unsuitable file does not end the search.
func lookPath(name string) (string, error) {
	if name == "" {
		return "", &fs.PathError{Op: "exec", Path: `""`, Err: unix.ENOENT}
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", &fs.PathError{Op: "exec", Path: name, Err: err}
		}
		return name, nil
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = "/bin:/usr/bin" // confstr(_CS_PATH), as execvp
	}
	result := error(unix.ENOENT)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, unix.EACCES) {
			result = err
		}
	}
	return "", &fs.PathError{Op: "exec", Path: name, Err: result}
}

func executable(file string) error {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

// execProgram replaces this process. It returns only if that fails. A file that the kernel
// cannot execute is a shell script (execvp(3)).
func execProgram(file string, argv, env []string) error {
	err := syscall.Exec(file, argv, env)
	if errors.Is(err, unix.ENOEXEC) {
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, argv[1:]...), env)
	}
	return &fs.PathError{Op: "exec", Path: argv[0], Err: err}
}

// adoptOrphans makes this process the parent of descendants that lose their parent.
func adoptOrphans() error {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w: %s", err, filter.Sandboxed("prctl"))
	}
	return nil
}

// exitCode returns a shell's exit code for a program that could not be run.
func exitCode(err error) int {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ExitNotFound
	default:
		return ExitNotExecutable
	}
}

// complain tells the user what went wrong.
func complain(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gorxe: "+format+"\n", args...)
}
