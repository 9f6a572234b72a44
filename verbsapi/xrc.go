package verbsapi

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// XRCD is an XRC domain (struct ibv_xrcd): SRQs, and the queue pairs that serve them.
type XRCD struct {
	ctx   *Context
	xrcd  *rxe.XRCD
	file  int   // a descriptor that keeps the inode; -1: none
	users users // SRQs and targets
}

// inode names a file for the engine.
type inode struct{ dev, ino uint64 }

// OpenXRCD opens an XRC domain (ibv_open_xrcd with O_CREAT). Contexts of one device that open the
// same file share its domain. Nil: a domain of the caller's own.
func (c *Context) OpenXRCD(file *os.File) (*XRCD, error) {
	const op = "OpenXRCD"
	if err := c.verb(op, "open_xrcd"); err != nil {
		return nil, err
	}
	x, init := &XRCD{ctx: c, file: -1}, rxe.XRCDInit{Create: true}
	if file != nil {
		var st unix.Stat_t
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			x.file = fd
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			x.closeFile()
			return nil, &OpError{Op: op, Arg: "file", Err: err}
		}
		init.File = inode{st.Dev, st.Ino}
	}
	var err error
	if x.xrcd, err = c.sub.OpenXRCD(init); err != nil {
		x.closeFile()
		return nil, err
	}
	return own(c, op, kindXRCD, x)
}

// Context returns the context of the domain.
func (x *XRCD) Context() *Context { return x.ctx }

// Close closes the domain (ibv_close_xrcd). It returns ErrBusy while an SRQ or a queue pair that
// was made with it exists. The domain lives as long as another context has it open.
func (x *XRCD) Close() error {
	return x.ctx.destroy("CloseXRCD", "close_xrcd", kindXRCD, x, x.close)
}

func (x *XRCD) close() error {
	return x.users.end("CloseXRCD", "xrcd", func() error {
		err := x.xrcd.Close()
		if err == nil {
			x.closeFile()
		}
		return err
	})
}

func (x *XRCD) closeFile() {
	if x.file >= 0 {
		unix.Close(x.file)
		x.file = -1
	}
}

func (x *XRCD) destroyNow() { x.close() } //nolint:errcheck // another context's queue pair may hold it

// use makes an object with the domain.
func (x *XRCD) use(op string, make func(*rxe.XRCD) error) error {
	if err := x.users.join(op, "xrcd"); err != nil {
		return err
	}
	err := make(x.xrcd)
	if err != nil {
		x.users.leave()
	}
	return err
}

// leave undoes use.
func (x *XRCD) leave() {
	if x != nil {
		x.users.leave()
	}
}

// CreateTarget makes a queue pair of type QPXRCTgt in RESET (ibv_create_qp_ex). It receives for all
// SRQs of the domain, and has no queue of its own. Its peer is a queue pair of type QPXRCIni.
func (x *XRCD) CreateTarget() (*QP, error) {
	return x.target("CreateTarget", "create_qp", func(d *rxe.XRCD) (*rxe.QP, error) {
		return x.ctx.sub.CreateTarget(d, rxe.QPInitAttr{Owner: x.ctx.faults, Faults: x.ctx.works})
	})
}

// OpenQP returns a target of the domain that another context has created (ibv_open_qp). The queue
// pair exists until all that have it destroy it.
func (x *XRCD) OpenQP(num QPN) (*QP, error) {
	return x.target("OpenQP", "open_qp", func(d *rxe.XRCD) (*rxe.QP, error) { return d.OpenQP(num) })
}

func (x *XRCD) target(op, verb string, get func(*rxe.XRCD) (*rxe.QP, error)) (*QP, error) {
	if x == nil {
		return nil, invalid(op, "xrcd", "is nil")
	}
	if err := x.ctx.verb(op, verb); err != nil {
		return nil, err
	}
	q := &QP{ctx: x.ctx, init: QPInitAttr{Type: QPXRCTgt}, xrcd: x}
	err := x.use(op, func(d *rxe.XRCD) (err error) {
		q.qp, err = get(d)
		return err
	})
	if err != nil {
		return nil, err
	}
	x.ctx.eng.watch(q.qp, q)
	return own(x.ctx, op, kindQP, q)
}

// createXRC makes an SRQ of XRC.
func (c *Context) createXRC(op string, attr SRQInitAttrEx) (*SRQ, error) {
	switch {
	case attr.CQ == nil || attr.CQ.ctx != c:
		return nil, invalid(op, "cq", "is not of this context")
	case attr.XRCD == nil || attr.XRCD.ctx != c:
		return nil, invalid(op, "xrcd", "is not of this context")
	}
	if err := c.verb(op, "create_srq"); err != nil {
		return nil, err
	}
	s := &SRQ{ctx: c, xrcd: attr.XRCD}
	err := attr.XRCD.use(op, func(x *rxe.XRCD) (err error) {
		s.srq, err = attr.PD.pd.CreateSRQ(rxe.SRQInit{MaxWR: attr.MaxWR, MaxSGE: attr.MaxSGE, Limit: attr.Limit, XRCD: x, CQ: attr.CQ.cq})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.enter(op)
}

// Num returns the number by which SendWR.XRCSRQN names an SRQ of type SRQXRC (ibv_get_srq_num).
// ErrInvalid for other types.
func (s *SRQ) Num() (uint32, error) {
	if n := s.srq.Num(); n != 0 {
		return n, nil
	}
	return 0, invalid("GetSRQNum", "srq", "is not of type SRQXRC")
}
