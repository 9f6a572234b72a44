package keeper

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
// cannot execute is a shell script (execvp(3)), unless it is a program of another architecture.
func execProgram(file string, argv, env []string) error {
	err := syscall.Exec(file, argv, env)
	if errors.Is(err, unix.ENOEXEC) {
		if machine, ok := elfMachine(file); ok {
			return fmt.Errorf("exec %s: %w: it is a program for %s, and this machine is %s", argv[0], err, machine, runtime.GOARCH)
		}
		err = syscall.Exec("/bin/sh", append([]string{"/bin/sh", file}, argv[1:]...), env)
	}
	return &fs.PathError{Op: "exec", Path: argv[0], Err: err}
}

// elfMachine returns the architecture of an ELF file.
func elfMachine(file string) (string, bool) {
	f, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	var h [20]byte // up to e_machine
	if _, err := io.ReadFull(f, h[:]); err != nil || string(h[:4]) != elf.ELFMAG {
		return "", false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if h[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	name := elf.Machine(order.Uint16(h[18:])).String()
	return strings.ToLower(strings.TrimPrefix(name, "EM_")), true
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
