package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/refusal"
)

// Refusals is told of calls that failed, and why.
type Refusals interface {
	// Refused is called after a verb has failed with errno. err says why: it may be, or wrap, a
	// Refusal or an rxe.OpError.
	Refused(verb string, errno unix.Errno, err error)
}

// Refusal is an errno with the reason.
type Refusal = refusal.Refusal

// Refuse returns a Refusal.
func Refuse(errno unix.Errno, arg, why, fix string) error { return refusal.New(errno, arg, why, fix) }
