package ucma

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// maxOption bounds the value of an option. The kernel's bound is what it can allocate; the
// longest value is a few paths.
const maxOption = 4 << 20

// setOption answers SET_OPTION.
func (k *call) setOption(req *uapi.UcmaSetOptionReq) error {
	if req.Optlen > maxOption {
		return errOptionSize
	}
	c, err := k.find(req.ID)
	if err != nil {
		return err
	}
	value := make([]byte, req.Optlen)
	if len(value) > 0 {
		if err := k.Read(req.Optval, value); err != nil {
			return err
		}
	}
	switch req.Level {
	case uapi.OptionID:
		return c.setIDOption(req.Optname, value)
	case uapi.OptionIB:
		if req.Optname == uapi.OptionIBPath {
			return c.setPath(value)
		}
	}
	return unix.ENOSYS
}

// setIDOption is ucma.c's ucma_set_option_id.
func (c *cmID) setIDOption(name uint32, value []byte) error {
	size := 1
	switch name {
	case uapi.OptionIDReuseAddr, uapi.OptionIDAFOnly:
		size = 4
	case uapi.OptionIDTOS, uapi.OptionIDAckTimeout:
	default:
		return unix.ENOSYS
	}
	if len(value) != size {
		return errOptionSize
	}
	switch name {
	case uapi.OptionIDTOS:
		return c.id.SetTOS(value[0])
	case uapi.OptionIDAckTimeout:
		return c.id.SetAckTimeout(value[0])
	case uapi.OptionIDReuseAddr:
		return c.id.SetReuseAddr(binary.NativeEndian.Uint32(value) != 0)
	default:
		return c.id.SetAFOnly(binary.NativeEndian.Uint32(value) != 0)
	}
}

// setPath is ucma.c's ucma_set_ib_path. It uses the first path that is for all traffic.
// The event ROUTE_RESOLVED follows.
func (c *cmID) setPath(value []byte) error {
	size := uapi.SizeOf[uapi.PathRecData]()
	if len(value)%size != 0 {
		return errOptionSize
	}
	for ; len(value) > 0; value = value[size:] {
		p := uapi.Load[uapi.PathRecData](value)
		if p.Flags != uapi.PathFlags {
			continue
		}
		if c.id.Device() == nil {
			return errNoDevice
		}
		return c.id.SetPath(unpackPath(&p.PathRec))
	}
	return kernel.Refuse(unix.EINVAL, "optval", "has no path for all traffic", "set IB_PATH_GMP, _PRIMARY and _BIDIRECTIONAL")
}
