package uverbs

import (
	"github.com/gorxe/gorxe/internal/fdid"
	"github.com/gorxe/gorxe/rxe"
)

// Caller is the thread whose system call is being answered. It is valid for the
// duration of that call only. Errors are unix.Errno values.
type Caller interface {
	// Read fills p from the program's memory at addr; EFAULT.
	Read(addr uint64, p []byte) error
	// Write copies p to the program's memory at addr; EFAULT.
	Write(addr uint64, p []byte) error
	// Space is the address space that the caller lives in, for memory regions
	// that outlast the call. Every call within one address space returns the
	// same value.
	Space() (Space, error)
	// InstallFD gives the program a descriptor, close-on-exec, for what the
	// daemon's own fd refers to, and returns its number there; EMFILE. fd stays
	// the caller's.
	InstallFD(fd int) (int32, error)
	// FileID says what the program's descriptor fd refers to; EBADF.
	FileID(fd int32) (fdid.ID, error)
}

// Space is the address space of a program. It must be comparable.
type Space interface {
	rxe.Memory
	// Check says whether all of a range is mapped, and writable if write is set;
	// EFAULT. It is advice: mappings change.
	Check(addr, length uint64, write bool) error
}
