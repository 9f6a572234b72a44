package uverbs

import (
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/test/librxeclient"
)

// TestOverrunTold: the daemon is told once, whichever call sees the overrun, and however
// many queues have one.
func TestOverrunTold(t *testing.T) {
	looks := map[string]func(*user, uint32){
		"req_notify_cq": func(u *user, cq uint32) {
			u.call(verb{cmd: uapi.CmdReqNotifyCQ, req: bytesFrom(uapi.ReqNotifyCQReq{CQHandle: cq})})
		},
		"resize_cq": func(u *user, cq uint32) {
			u.call(verb{cmd: uapi.CmdResizeCQ, req: bytesFrom(uapi.ResizeCQReq{CQHandle: cq, CQE: 20}),
				resp: uapi.SizeOf[uapi.ResizeCQResp](), uhwResp: uapi.SizeOf[librxe.MMInfo]()})
		},
		"destroy_cq": func(u *user, cq uint32) { u.call(destroyVerb(uapi.CmdDestroyCQ, cq)) },
		"status":     func(u *user, _ uint32) { u.f.Status(100) },
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			d, _ := newDevice(t)
			u := &user{opened(t, d), forms[0]}
			told := make(chan struct{}, 10)
			u.f.OnOverrun(func() { told <- struct{}{} })
			for i := range 2 {
				cq, place := u.createCQ(10, -1, 0)
				if u.f.Overrun() != (i > 0) {
					t.Errorf("queue %d: an overrun before any poll", i)
				}
				q := librxeclient.Map(t, u.f.FD(), place.Offset, place.Size)
				q.SetConsumer(q.Producer() + 1)
				look(u, cq.CQHandle)
				if !u.f.Overrun() {
					t.Errorf("queue %d: the overrun was not seen", i)
				}
				if name == "req_notify_cq" && q.Consumer() != q.Producer() {
					t.Errorf("queue %d: the index is at %d, not put back to %d", i, q.Consumer(), q.Producer())
				}
				if !u.f.Status(100).Overrun {
					t.Errorf("queue %d: the status does not know of the overrun", i)
				}
			}
			<-told
			if len(told) != 0 {
				t.Error("told twice")
			}
		})
	}
	t.Run("exit", func(t *testing.T) {
		d, _ := newDevice(t)
		u := &user{opened(t, d), forms[1]}
		_, place := u.createCQ(10, -1, 0)
		q := librxeclient.Map(t, u.f.FD(), place.Offset, place.Size)
		q.SetConsumer(1)
		u.exit()
		if !u.f.Overrun() {
			t.Error("the end of a program did not look")
		}
	})
}
