package doorbell

import (
	"fmt"
	"strconv"
	"strings"
)

// A Mode says which doorbells, the one system call of a post_send, are trapped.
//
// A trapped one is answered when its work was done or handed over: its errno is
// rdma_rxe's, and the program's processor is free for the work meanwhile. One that is
// not trapped costs the program no more than a short write, several of them are
// answered together, and it always succeeds.
type Mode uint8

const (
	// Auto traps them on a machine with one processor.
	Auto Mode = iota
	// Trapped traps them all.
	Trapped
	// Direct traps those only that cannot be told from other calls.
	Direct
)

var names = [...]string{Auto: "auto", Trapped: "trapped", Direct: "direct"}

// UnmarshalText implements encoding.TextUnmarshaler: auto, trapped or direct.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range names {
		if name == string(text) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", text, strings.Join(names[:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String is the name that UnmarshalText takes.
func (m Mode) String() string {
	if int(m) < len(names) {
		return names[m]
	}
	return strconv.Itoa(int(m))
}
