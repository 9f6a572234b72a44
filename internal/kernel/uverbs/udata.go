package uverbs

import (
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// Udata is the provider's part of a call.
type udata struct{ k *call }

var _ provider.UData = udata{}

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
