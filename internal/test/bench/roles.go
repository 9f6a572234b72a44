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
	role, out, in := args[0], os.Stdout, os.Stdin
	if role == MemoryRole {
		return MemoryProgram(out, in)
	}
	if role != TrapRole && role != RingRole || len(args) < 2 {
		return ErrNoRole
	}
	span, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if role == TrapRole {
		return TrapProgram(out, span)
	}
	return RingProgram(out, in, span)
}
