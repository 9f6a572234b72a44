package verbsapi

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/bufmem"
)

// dmabufAccess are the rights that a region of a dma-buf may have.
const dmabufAccess = AccessLocalWrite | AccessRemoteRead | AccessRemoteWrite | AccessRemoteAtomic | AccessRelaxed

// RegDMABufMR registers length bytes from offset on of the dma-buf behind descriptor fd, which the
// caller may close then (ibv_reg_dmabuf_mr). Work requests name the first byte iova, whose offset
// within a page must be that of offset. It returns ErrInvalid for a range beyond the buffer, for a
// descriptor of another kind, and for rights that such a region cannot have. It returns
// ErrNotSupported if the buffer cannot be mapped, and EBADF if fd is not open.
func (p *PD) RegDMABufMR(offset uint64, length int, iova uint64, fd int, access Access) (*MR, error) {
	const op = "RegDMABufMR"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "reg_mr"); err != nil {
		return nil, err
	}
	switch {
	case offset%dmabufPage != iova%dmabufPage:
		return nil, invalid(op, "iova", "its offset within a page differs from that of offset")
	case access&^dmabufAccess != 0:
		return nil, invalid(op, "access", "has a right that a region of a dma-buf cannot have")
	}
	buf, err := mapDMABuf(op, fd)
	if err != nil {
		return nil, err
	}
	if length < 0 || offset+uint64(length) < offset || length == 0 && offset%dmabufPage == 0 ||
		buf.Check(offset, uint64(length), false) != nil {
		buf.Close()
		return nil, invalid(op, "length", "is empty, or ends behind the buffer")
	}
	m, err := p.register(op, buf, offset, &mapping{dmabuf: buf, length: length, base: iova, access: access})
	if err != nil {
		buf.Close()
	}
	return m, err
}

const dmabufPage = 4096

// describeDMABuf is replaced by tests.
var describeDMABuf = bufmem.Describe

func mapDMABuf(op string, fd int) (*bufmem.DMABuf, error) {
	info, err := describeDMABuf(fd)
	switch {
	case errors.Is(err, unix.EBADF):
		return nil, &OpError{Op: op, Arg: "fd", Why: "is not open", Err: err}
	case err != nil:
		return nil, invalid(op, "fd", "is not a dma-buf")
	}
	buf, err := bufmem.Map(fd, info)
	switch {
	case errors.Is(err, unix.ENOMEM):
		return nil, &OpError{Op: op, Arg: "fd", Err: ErrLimit, Why: err.Error()}
	case err != nil:
		return nil, &OpError{Op: op, Arg: "fd", Err: ErrNotSupported, Why: "the exporter " + info.Exporter + " does not let a processor map its buffer"}
	}
	return buf, nil
}
