// Package rxedev makes an engine's device for tests, whose queue pairs talk to each
// other: nothing reaches its link.
package rxedev

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// QKey is a queue key that is not privileged.
const QKey = 0x1234

// Addr is the address of the device.
var Addr = netip.MustParseAddr("10.0.0.1")

// Nowhere is a link that sends nothing, and a clock that stands still.
type Nowhere struct{}

func (Nowhere) Send([]wire.Burst)     {}
func (Nowhere) Join(wire.GID) error   { return nil }
func (Nowhere) Leave(wire.GID) error  { return nil }
func (Nowhere) Now() rxe.Time         { return 1 }
func (Nowhere) Arm(deadline rxe.Time) {}

// New returns an active device.
func New(t testing.TB) *rxe.Device {
	t.Helper()
	dev := must.Get[*rxe.Device](t)(rxe.New(rxe.Config{Name: "rxe0", Link: Nowhere{}, Clock: Nowhere{}, Seed: [32]byte{1}}))
	if err := dev.SetGIDs([]wire.GID{wire.GIDFromAddr(Addr)}); err != nil {
		t.Fatal(err)
	}
	if err := dev.SetPort(rxe.PortActive, 4096); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// Rights are all access rights.
const Rights = rxe.AccessLocalWrite | rxe.AccessRemoteWrite | rxe.AccessRemoteRead |
	rxe.AccessRemoteAtomic | rxe.AccessMWBind | rxe.AccessFlushGlobal | rxe.AccessFlushPersist

// Fill writes a pattern into b.
func Fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

const Signaled = rxe.SendSignaled
