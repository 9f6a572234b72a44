package bench

import (
	"errors"
	"os"
	"time"
)

// ErrNoRole is what Role returns for arguments that are not for it.
var ErrNoRole = errors.New("these arguments are no role")

// Role is what a program does that is measured: TrapProgram, MemoryProgram or RingProgram.
func Role(args []string) error {
	if len(args) == 0 {
		return ErrNoRole
	}
	span := func() (time.Duration, error) {
		if len(args) < 2 {
			return 0, ErrNoRole
		}
		return time.ParseDuration(args[1])
	}
	switch args[0] {
	case MemoryRole:
		return MemoryProgram(os.Stdout, os.Stdin)
	case TrapRole:
		d, err := span()
		if err != nil {
			return err
		}
		return TrapProgram(os.Stdout, d)
	case RingRole:
		d, err := span()
		if err != nil {
			return err
		}
		return RingProgram(os.Stdout, os.Stdin, d)
	default:
		return ErrNoRole
	}
}
