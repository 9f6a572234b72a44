package uverbs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// plainDriver is a second provider: another number, private structs of its own, and
// queues in the daemon's memory. Its doorbell sends one empty message.
type plainDriver struct{}

const plainDriverID = 18 // RDMA_DRIVER_SIW

// Its private structs.
type (
	plainCreateCQReq  struct{ Magic, Scale uint32 }
	plainCreateCQResp struct {
		Cookie uint64
		Depth  uint32
		Number uint32
	}
	plainCreateQPResp struct{ Cookie uint64 }
)

const plainMagic = 0x7013

func (plainDriver) ID() uint32 { return plainDriverID }

func (plainDriver) Open(o provider.Open) (provider.Context, error) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	return &plainContext{file: f, dev: o.Device}, nil
}

type plainContext struct {
	file *os.File
	dev  *rxe.Subdevice
	live int // queues
}

func (c *plainContext) FD() int                  { return int(c.file.Fd()) }
func (c *plainContext) DoorbellOffset() int64    { return 0 }
func (c *plainContext) Mappings() (uint64, bool) { return 0, false }
func (c *plainContext) Sweep()                   {}
func (c *plainContext) End()                     {}
func (c *plainContext) Close(bool)               { _ = c.file.Close() }

func (c *plainContext) CreatedAH(provider.UData, *rxe.AH) error { return unix.EOPNOTSUPP }

func (c *plainContext) NewSRQ(provider.UData, provider.SRQRequest) (provider.SRQ, error) {
	return nil, unix.EOPNOTSUPP
}

func (c *plainContext) NewCQ(u provider.UData, req provider.CQRequest) (provider.CQ, error) {
	private := uapi.Load[plainCreateCQReq](u.Request())
	if private.Magic != plainMagic {
		return nil, unix.EINVAL
	}
	c.live++
	return &plainCQ{c: c, number: req.Handle, depth: req.Entries * private.Scale}, nil
}

type plainCQ struct {
	c             *plainContext
	number, depth uint32
	wcs           []rxe.WC
}

func (q *plainCQ) Push(wc *rxe.WC) bool {
	q.wcs = append(q.wcs, *wc)
	return true
}

func (q *plainCQ) Ring() rxe.CQRing                         { return q }
func (q *plainCQ) Entries() int                             { return int(q.depth) }
func (q *plainCQ) Waiting() int                             { return len(q.wcs) }
func (q *plainCQ) CheckResize(provider.UData, uint32) error { return unix.EOPNOTSUPP }
func (q *plainCQ) Resize(provider.UData, uint32) error      { return unix.EOPNOTSUPP }
func (q *plainCQ) Arming()                                  {}
func (q *plainCQ) Free()                                    { q.c.live-- }

func (q *plainCQ) Created(u provider.UData, _ *rxe.CQ) error {
	resp := plainCreateCQResp{Cookie: 0xc0c0, Depth: q.depth, Number: q.number}
	return u.Respond(uapi.BytesOf(&resp))
}

func (c *plainContext) NewQP(provider.UData, provider.QPRequest) (provider.QP, error) {
	c.live++
	return &plainQP{c: c}, nil
}

type plainQP struct {
	c  *plainContext
	qp *rxe.QP
}

// Pop is rxe.RecvRing: there is always a request, without a list.
func (q *plainQP) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	w.ID, w.SGL = 77, w.SGL[:0]
	return true, false
}

func (q *plainQP) Init(init *rxe.QPInitAttr)              { init.RecvRing = q }
func (q *plainQP) Discard()                               {}
func (q *plainQP) Pending() bool                          { return false }
func (q *plainQP) Take(int, bool) (provider.Taken, error) { return provider.Taken{}, nil }
func (q *plainQP) Receives() (int, int)                   { return 0, 0 }
func (q *plainQP) Reset()                                 {}
func (q *plainQP) Free()                                  { q.c.live-- }

func (q *plainQP) Created(u provider.UData, qp *rxe.QP) error {
	q.qp = qp
	resp := plainCreateQPResp{Cookie: 0x9797}
	return u.Respond(uapi.BytesOf(&resp))
}

func (q *plainQP) Doorbell() error {
	_, err := q.qp.PostSend([]rxe.SendWR{{ID: 5, Op: rxe.WRSend, Flags: rxe.SendSignaled}})
	return err
}
