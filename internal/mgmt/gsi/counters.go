package gsi

import (
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
)

// counters counts management datagrams.
type counters struct {
	Received    atomic.Uint64
	Sent        atomic.Uint64
	SendErrors  atomic.Uint64 // the device refused the address
	Malformed   atomic.Uint64 // of another length or version, or not for queue pair 1
	Overflow    atomic.Uint64 // the agents were behind
	OverShare   atomic.Uint64 // the agents were behind, and one sender had taken its share
	BadAddress  atomic.Uint64 // to an address that the port has lost
	NoAgent     atomic.Uint64 // dropped without an answer
	NoAnswer    atomic.Uint64 // requests of this device's own programs
	Unsupported atomic.Uint64 // requests that no agent takes, answered so

	// ExpectedOverflow counts datagrams of exchanges under way.
	ExpectedOverflow atomic.Uint64
}

// Counters returns every counter.
func (m *Mux) Counters() []rxe.Counter {
	c := &m.counters
	return []rxe.Counter{
		{Name: "mad_rcvd", Value: c.Received.Load()},
		{Name: "mad_sent", Value: c.Sent.Load()},
		{Name: "mad_send_err", Value: c.SendErrors.Load()},
		{Name: "mad_unsupported", Value: c.Unsupported.Load()},
		{Name: "mad_no_answer", Value: c.NoAnswer.Load()},
		{Name: "drop_mad_malformed", Value: c.Malformed.Load()},
		{Name: "drop_mad_overflow", Value: c.Overflow.Load()},
		{Name: "drop_mad_over_share", Value: c.OverShare.Load()},
		{Name: "drop_mad_expected", Value: c.ExpectedOverflow.Load()},
		{Name: "drop_mad_bad_addr", Value: c.BadAddress.Load()},
		{Name: "drop_mad_no_agent", Value: c.NoAgent.Load()},
	}
}
