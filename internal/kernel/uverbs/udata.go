package uverbs

import "github.com/gorxe/gorxe/internal/provider"

// udata is the provider's part of a call.
type udata struct{ k *call }

var _ provider.UData = udata{}

// Request implements provider.UData.
func (u udata) Request() []byte { return u.k.uhwIn }

// Room implements provider.UData.
func (u udata) Room() int { return u.k.uhwOut.size }

// Probe implements provider.UData.
func (u udata) Probe(n int) error { return u.k.probe(&u.k.uhwOut, n) }

// Respond implements provider.UData.
func (u udata) Respond(b []byte) error { return u.k.answer(&u.k.uhwOut, b) }

// Write implements provider.UData.
func (u udata) Write(addr uint64, b []byte) error { return u.k.c.Write(addr, b) }
