package uverbs

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
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
	// where the work request is, in the program's memory; 0: there is none
	plainCreateQPReq  struct{ Queue uint64 }
	plainCreateQPResp struct{ Cookie uint64 }
	plainContextReq   struct{ Magic, Version uint32 }
	plainContextResp  struct{ Version, PageShift uint32 }
	plainPDResp       struct{ Number uint64 }
	plainModifyReq    struct{ Magic, Register uint32 }
	plainModifyResp   struct{ Register, Mask uint32 }
	plainQueryResp    struct{ Caps uint64 }
)

const plainMagic = 0x7013

func (plainDriver) ID() uint32 { return plainDriverID }

func (plainDriver) ABI() uint32 { return 1 }

func (plainDriver) Look(string, int) provider.Look { return provider.Look{} }

func (plainDriver) Methods() provider.Methods { return plainMethods }

func (plainDriver) Open(o provider.Open) (provider.Context, error) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	return &plainContext{file: f, dev: o.Device}, nil
}

type plainContext struct {
	file   *os.File
	dev    *rxe.Subdevice
	space  rxe.Memory // of the program that made the context
	pds    uint64
	live   int           // queues
	ending []rxe.QPState // of queue pairs whose end was announced
	ended  []uint64      // objects of the driver's own, in their order
}

func (c *plainContext) FD() int                  { return int(c.file.Fd()) }
func (c *plainContext) DoorbellOffset() int64    { return 0 }
func (c *plainContext) Mappings() (uint64, bool) { return 0, false }
func (c *plainContext) Sweep()                   {}
func (c *plainContext) End()                     {}
func (c *plainContext) Close(bool)               { _ = c.file.Close() }

func (c *plainContext) Begin(u provider.UData) (err error) {
	private := uapi.Load[plainContextReq](u.Request())
	if len(u.Request()) > 0 && private.Magic != plainMagic {
		return unix.EINVAL
	}
	if c.space, err = u.Space(); err != nil {
		return err
	}
	resp := plainContextResp{private.Version, 12}
	return u.Respond(uapi.BytesOf(&resp))
}

const plainVendor = 0x02c9

func (c *plainContext) QueryDevice(u provider.UData, a *provider.DeviceAttr) error {
	a.VendorID = plainVendor
	resp := plainQueryResp{0xca95}
	return u.Respond(uapi.BytesOf(&resp))
}

func (c *plainContext) CreatedPD(u provider.UData, _ *rxe.PD, _ uint32) error {
	c.pds++
	resp := plainPDResp{c.pds}
	return u.Respond(uapi.BytesOf(&resp))
}

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

func (c *plainContext) NewQP(u provider.UData, _ provider.QPRequest) (provider.QP, error) {
	c.live++
	return &plainQP{c: c, queue: uapi.Load[plainCreateQPReq](u.Request()).Queue}, nil
}

type plainQP struct {
	c     *plainContext
	qp    *rxe.QP
	queue uint64
}

// Pop is rxe.RecvRing: there is always a request, without a list.
func (q *plainQP) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	w.ID, w.SGL = 77, w.SGL[:0]
	return true, false
}

func (q *plainQP) Init(init *rxe.QPInitAttr)              { init.RecvRing = q }
func (q *plainQP) Answer(_, made rxe.QPCap) rxe.QPCap     { return made }
func (q *plainQP) Discard()                               {}
func (q *plainQP) Pending() bool                          { return false }
func (q *plainQP) Take(int, bool) (provider.Taken, error) { return provider.Taken{}, nil }
func (q *plainQP) Receives() (int, int)                   { return 0, 0 }
func (q *plainQP) Ending()                                { q.c.ending = append(q.c.ending, q.qp.State()) }
func (q *plainQP) Free()                                  { q.c.live-- }

func (q *plainQP) Created(u provider.UData, qp *rxe.QP) error {
	q.qp = qp
	resp := plainCreateQPResp{Cookie: 0x9797}
	return u.Respond(uapi.BytesOf(&resp))
}

// Modify refuses a private request that it does not know, and answers those that it does.
func (q *plainQP) Modify(u provider.UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error {
	private := uapi.Load[plainModifyReq](u.Request())
	if len(u.Request()) > 0 && private.Magic != plainMagic {
		return unix.EINVAL
	}
	if err := q.qp.Modify(attr, mask); err != nil {
		return err
	}
	resp := plainModifyResp{private.Register, uint32(mask)}
	return u.Respond(uapi.BytesOf(&resp))
}

// Doorbell reads the number of the work request from the program's memory.
func (q *plainQP) Doorbell() error {
	id := [8]byte{5}
	if q.queue != 0 {
		if err := q.c.space.ReadV([]rxe.Span{{VA: q.queue, Buf: id[:]}}); err != nil {
			return err
		}
	}
	_, err := q.qp.PostSend([]rxe.SendWR{{ID: uapi.Load[uint64](id[:]), Op: rxe.WRSend, Flags: rxe.SendSignaled}})
	return err
}
