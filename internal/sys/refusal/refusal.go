// Package refusal has the errno of a call that is refused, with the reason.
package refusal

import "golang.org/x/sys/unix"

// Refusal is an errno with the reason. Errno is what the program gets.
type Refusal struct {
	Errno unix.Errno
	Arg   string // the argument or attribute, or empty
	Why   string // what is wrong with it: "is not 1"
	Fix   string // what to do: "use port 1"
	Rule  bool   // a fault rule refused it
}

// New returns a Refusal.
func New(errno unix.Errno, arg, why, fix string) error {
	return &Refusal{Errno: errno, Arg: arg, Why: why, Fix: fix}
}

func (r *Refusal) Error() string {
	s := r.Why + ": " + r.Errno.Error()
	if r.Arg != "" {
		s = r.Arg + " " + s
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.Errno }

// Reason returns the parts of a sentence. No Refusal has a value that was given.
func (r *Refusal) Reason() (arg, given, why, fix string) { return r.Arg, "", r.Why, r.Fix }

// ByRule reports whether a fault rule refused the call.
func (r *Refusal) ByRule() bool { return r.Rule }
