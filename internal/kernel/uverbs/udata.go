package uverbs

import (
	"errors"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// Udata is the provider's part of a call.
type udata struct{ k *call }

var (
	_ provider.UData  = udata{}
	_ provider.Lender = udata{}
)

// Request implements provider.UData.
func (u udata) Request() []byte { return u.k.UHWIn }

// Room implements provider.UData.
func (u udata) Room() int { return u.k.UHWOut.Size }

// Probe implements provider.UData.
func (u udata) Probe(n int) error { return u.k.Probe(&u.k.UHWOut, n) }

// Respond implements provider.UData.
func (u udata) Respond(b []byte) error { return u.k.Answer(&u.k.UHWOut, b) }

// Write implements provider.UData.
func (u udata) Write(addr uint64, b []byte) error { return u.k.Caller.Write(addr, b) }

// Space implements provider.UData.
func (u udata) Space() (rxe.Memory, error) { return u.k.Caller.Space() }

// LendFaults implements provider.Lender.
func (u udata) LendFaults(got func(fd int, err error)) {
	if l, ok := u.k.Caller.(kernel.Lender); ok {
		l.LendFaults(got)
	} else {
		got(-1, errors.ErrUnsupported)
	}
}

// mostMappings bounds the size of /proc/PID/maps. Half: a program with some ten thousand mappings
// has no guard.
const mostMappings = 1 << 20

// Mappings implements provider.Lender.
func (u udata) Mappings() string {
	if s, ok := u.k.Caller.(kernel.Standing); ok {
		return s.Maps(mostMappings)
	}
	return ""
}
