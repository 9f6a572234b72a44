package uverbs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/rxe"
)

// dmabufAccess are the rights that a region of a dma-buf may have
// (uverbs_std_types_mr.c: UVERBS_METHOD_REG_DMABUF_MR).
const dmabufAccess = rxe.AccessLocalWrite | rxe.AccessRemoteRead | rxe.AccessRemoteWrite |
	rxe.AccessRemoteAtomic | rxe.AccessRelaxed

// ioctlRegDMABufMR answers ibv_reg_dmabuf_mr. rdma_rxe does not have it. The order of the checks is
// that of the kernel's method, then that of umem_dmabuf.c: ib_umem_dmabuf_get. NCCL asks with
// descriptor -1 whether there is the method, and takes EBADF for yes.
func ioctlRegDMABufMR(k *call) error {
	offset := k.Attrs.U64(uapi.AttrRegDMABufOffset)
	length := k.Attrs.U64(uapi.AttrRegDMABufLength)
	iova := k.Attrs.U64(uapi.AttrRegDMABufIOVA)
	if offset&pageOffset != iova&pageOffset {
		return kernel.Refuse(unix.EINVAL, "offset and iova", "the offsets within a page differ", "use an iova with the offset of the buffer")
	}
	flags, err := k.Attrs.Flags(uapi.AttrRegDMABufAccess, uint64(dmabufAccess))
	if err != nil {
		return err
	}
	access := rxe.Access(flags)
	if err := checkAccess(access); err != nil {
		return err
	}
	if offset+length < offset {
		return kernel.Refuse(unix.EINVAL, "offset and length", "the range wraps around", "end the region within the buffer")
	}
	buf, err := k.mapDMABuf(int32(k.Attrs.U32(uapi.AttrRegDMABufFD)))
	if err != nil {
		return err
	}
	if err := inBuffer(buf, offset, length, access); err != nil {
		buf.Close()
		return err
	}
	pd := k.Attrs.Object(uapi.AttrRegDMABufPD).Res.(*pdRes)
	g := region{space: buf, pd: pd.pd, start: offset, length: length, iova: iova, access: access, dmabuf: buf}
	if err := k.registerDMABuf(g); err != nil {
		buf.Close()
		return err
	}
	return nil
}

// inBuffer checks a range against the buffer.
func inBuffer(buf *bufmem.DMABuf, offset, length uint64, access rxe.Access) error {
	switch err := buf.Check(offset, length, writable(access)); {
	case errors.Is(err, unix.EACCES):
		return kernel.Refuse(unix.EACCES, "access", "the descriptor may only be read", "export the buffer with O_RDWR")
	case err != nil:
		return kernel.Refuse(unix.EINVAL, "offset and length", "the range ends behind the buffer", "end the region within the buffer")
	}
	return nil
}

// registerDMABuf makes the region. If its answer fails, the object gives the buffer back.
func (k *call) registerDMABuf(g region) error {
	o := k.Attrs.Object(uapi.AttrRegDMABufHandle)
	if err := k.f.charge(o, dmabufMemory); err != nil {
		return err
	}
	if err := g.checkRange(); err != nil {
		return err
	}
	mr, err := g.pd.RegMR(g.space, g.start, g.length, g.iova, g.access)
	if err != nil {
		return err
	}
	r := &mrRes{f: k.f, mr: mr, number: k.f.dev.numbers.mrs.Add(1), region: g}
	o.Res = r
	k.f.keys.addMR(r)
	if err := dispatch.Put(&k.Call, uapi.AttrRegDMABufLKey, uint32(mr.LKey())); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrRegDMABufRKey, r.rkey())
}

// mapDMABuf maps the buffer behind a descriptor of the program.
func (k *call) mapDMABuf(fd int32) (*bufmem.DMABuf, error) {
	own, err := k.Caller.TakeFD(fd)
	switch {
	case errors.Is(err, unix.EBADF):
		return nil, kernel.Refuse(unix.EBADF, "fd", "is not open", "give the descriptor of a dma-buf")
	case err != nil:
		return nil, err
	}
	defer unix.Close(own)
	info, err := k.f.dev.describe(own)
	if err != nil {
		return nil, kernel.Refuse(unix.EINVAL, "fd", "is not a dma-buf", "give the descriptor of a dma-buf")
	}
	buf, err := bufmem.Map(own, info)
	switch {
	case err == nil || errors.Is(err, unix.ENOMEM):
		return buf, err
	default:
		return nil, kernel.Refuse(unix.EOPNOTSUPP, "fd",
			fmt.Sprintf("the exporter %s does not let a processor map its buffer (%v), and gorxe has no other way to it", info.Exporter, err),
			"copy the data to a buffer that mmap accepts")
	}
}
