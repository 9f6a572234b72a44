// Package doctor finds out what this machine or container allows gorxe to do. Each finding
// that is not good has its remedy.
//
// It looks at facts (the kernel's version, limits, libraries, sockets), and then has a
// program look for a device under gorxe run. The facts explain why that fails, or why it is
// slower than it could be.
package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/sys/userfault"
	"golang.org/x/sys/unix"
)

// A Level says how grave a finding is.
type Level uint8

const (
	// OK is as it should be.
	OK Level = iota
	// Note is something that a user may want to know.
	Note
	// Warning is a thing that some programs miss, or that costs speed.
	Warning
	// Failure keeps every program from its device.
	Failure
)

var levelNames = [...]string{OK: "ok", Note: "note", Warning: "warning", Failure: "failure"}

// String returns the level's name in lower case.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Finding is one thing that was examined.
type Finding struct {
	Subject string `json:"subject"` // one word or two: "open files"
	Level   Level  `json:"level"`
	Text    string `json:"finding"`
	// Remedy says what to do. It is empty if the level is OK.
	Remedy string `json:"remedy,omitempty"`
}

// Worst returns the gravest level of the findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// A Host is what is examined. Tests replace its parts.
type Host struct {
	// Files is the root directory.
	Files fs.FS
	// Release is the kernel's, as uname -r prints it.
	Release string
	// CPUs is how many processors the process may use.
	CPUs int
	// TracesAll reports whether the process has CAP_SYS_PTRACE.
	TracesAll bool
	// OpenFiles is the hard limit of open files.
	OpenFiles uint64
	// Space is the limit of the address space of a process, in bytes.
	Space uint64
	// JoinClass returns an error if no thread of the process may be in the real-time class.
	JoinClass func() error
	// SeccompAction returns an error if a seccomp filter cannot notify a listener.
	SeccompAction func() error
	// ReadMemory returns an error if process_vm_readv is refused.
	ReadMemory func() error
	// Faults returns an error if userfaultfd cannot protect shared memory.
	Faults func() error
	// Addresses are those of the interface of the default device, with their interface.
	Addresses func() ([]Address, error)
	// Bind returns an error if the RoCEv2 port of an address is not free.
	Bind func(Address) error
	// SocketOption returns an error if the kernel's UDP lacks an option.
	SocketOption func(option int) error
	// Trial runs a program that looks for a device, under gorxe run.
	Trial func() error
}

// Examine looks at everything. The order is the one to read and to mend in.
func (h *Host) Examine() []Finding {
	findings := slices.Concat(
		h.kernel(), h.seccomp(), h.memory(), h.doorbells(),
		h.limits(),
		h.libraries(),
		h.network(),
	)
	return append(findings, h.trial(findings)...)
}

// leftOut is the finding about what cannot be examined because of another one.
func leftOut(subject string, because Finding) Finding {
	return Finding{subject, Note, fmt.Sprintf("left out, because of %s: %s", because.Subject, because.Text), "mend that first"}
}

// trial has a program look for a device, if nothing before says that it cannot have one.
func (h *Host) trial(before []Finding) []Finding {
	const subject = "a program"
	if i := slices.IndexFunc(before, func(f Finding) bool { return f.Level == Failure }); i >= 0 {
		return []Finding{leftOut(subject, before[i])}
	}
	if err := h.Trial(); err != nil {
		return []Finding{{subject, Failure, "finds no device under gorxe run: " + strings.TrimSpace(err.Error()),
			"mend what is above; gorxe run --log-level debug says more"}}
	}
	return []Finding{{Subject: subject, Text: "finds its device under gorxe run"}}
}

// ThisHost returns the host of this process. The caller adds the Trial.
func ThisHost() (*Host, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	var space unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &space); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	return &Host{
		Files:         os.DirFS("/"),
		Release:       unix.ByteSliceToString(name.Release[:]),
		CPUs:          runtime.NumCPU(),
		TracesAll:     procfs.Capabilities(os.Getpid())&(1<<unix.CAP_SYS_PTRACE) != 0,
		OpenFiles:     files.Max,
		Space:         space.Cur,
		JoinClass:     sched.Permitted,
		SeccompAction: canNotify,
		ReadMemory:    canReadMemory,
		Faults:        userfault.Supported,
		Addresses:     defaultAddresses,
		Bind:          bindPort,
		SocketOption:  hasUDPOption,
	}, nil
}

// read returns a file's text without space around it; empty if it cannot be read.
func (h *Host) read(name string) string {
	text, err := fs.ReadFile(h.Files, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
