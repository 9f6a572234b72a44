package trap

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/test/must"
)

// echo answers what a program sends with the same bytes, and a request for a dump with one that
// no socket has room for.
type echo struct{ busy, asked atomic.Int32 }

const (
	dumpRequest   = "dump"
	dumpDatagrams = 400
	dumpSize      = 3776
)

func (e *echo) Netlink(who Credentials, req *kernel.NetlinkRequest, reply kernel.NetlinkReply) {
	e.asked.Add(1)
	if who.PID == 0 || req.Port == 0 {
		reply([]byte("who asks?"), false)
	}
	switch {
	case req.Dumping:
		e.busy.Add(1)
	case string(req.Data) == dumpRequest:
		for i := range uint32(dumpDatagrams) {
			b := make([]byte, dumpSize)
			binary.NativeEndian.PutUint32(b, i)
			reply(b, true)
		}
	default:
		reply(bytes.Clone(req.Data), false)
	}
}

func (e *echo) NetAdmin(Credentials) bool { return false }

// TestNetlink: a program sends on sockets of NETLINK_RDMA in each way.
func TestNetlink(t *testing.T) {
	e := new(echo)
	run(t, options{program: "netlink", netlink: e})
	if e.asked.Load() == 0 {
		t.Error("nothing was answered")
	}
}

// TestNetlinkFlood: a dump waits for a program that does not read. The program is told apart
// by it (NetlinkRequest.Dumping), and other calls are answered meanwhile.
func TestNetlinkFlood(t *testing.T) {
	e := new(echo)
	run(t, options{program: "netlink-flood", netlink: e})
	if got := e.busy.Load(); got != 100 {
		t.Errorf("%d of 100 requests came while the dump waited", got)
	}
}

// TestNetlinkKill: a program that is killed with a dump under way leaves nothing behind
// (leakless looks).
func TestNetlinkKill(t *testing.T) {
	e := new(echo)
	p := start(t, options{program: "netlink-hold", netlink: e})
	must.Eventually(t, "the program asks", func() bool { return e.asked.Load() > 0 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p.ended()
}
