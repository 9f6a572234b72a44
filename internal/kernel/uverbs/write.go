package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Write answers write(fd, buf, n) on the device's file: one command, in the
// plain or the extended form. It returns n, or a unix.Errno.
func (f *File) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	if n < uapi.CmdHdrSize {
		return 0, unix.EINVAL
	}
	k, err := f.enter(c)
	if err != nil {
		return 0, err
	}
	k.size = int64(n)
	err = k.write(buf, n)
	if f.leave(k, err); err != nil {
		return 0, errnoOf(err)
	}
	return int64(n), nil
}

// Read refuses, as a file without a read method (uverbs_main.c:uverbs_fops).
func (f *File) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

// command is how a write() command is framed (UAPI_DEF_WRITE_* of uverbs_cmd.c).
type command struct {
	name      string
	handle    func(*call) error
	req, resp int  // bytes of the core structs; 0 for extended ones, which may grow
	ex        bool // extended
	udata     bool // the provider's parts follow the core structs
	responds  bool // the request begins with the address of the response
}

// commandFor finds a command (rdma_core.h:uapi_get_method).
func commandFor(number uint32) (*command, error) {
	if number&^(uapi.CmdExtended|uapi.CmdMask) != 0 {
		return nil, unix.EINVAL
	}
	table := commands[:]
	if number&uapi.CmdExtended != 0 {
		table = exCommands[:]
	}
	i := number & uapi.CmdMask
	if int(i) >= len(table) {
		return nil, unix.EOPNOTSUPP
	}
	return &table[i], nil
}

// write reads a command with as few reads as it takes: a doorbell is one.
func (k *call) write(buf, n uint64) error {
	b := k.scratch[:min(n, uint64(len(k.scratch)))]
	readErr := k.c.Read(buf, b)
	if readErr != nil {
		// The kernel looks at the header first, and may find fault with it.
		if err := k.c.Read(buf, b[:uapi.CmdHdrSize]); err != nil {
			return err
		}
	}
	hdr := uapi.Load[uapi.CmdHdr](b)
	m, err := commandFor(hdr.Command)
	if err != nil {
		return err
	}
	if m.ex {
		return k.writeEx(m, &hdr, buf, n, b, readErr)
	}
	n, err = m.verify(&hdr, n)
	switch {
	case err != nil:
		return err
	case readErr != nil:
		return readErr
	}
	if b, err = k.readAll(buf, n, b); err != nil {
		return err
	}
	m.split(k, &hdr, b[uapi.CmdHdrSize:])
	return m.handle(k)
}

// verify is uverbs_main.c:verify_hdr for plain commands. It returns how much to
// read.
func (m *command) verify(hdr *uapi.CmdHdr, n uint64) (uint64, error) {
	if uint64(hdr.InWords)*4 != n {
		return 0, unix.EINVAL
	}
	if n < uint64(m.req+uapi.CmdHdrSize) {
		// rdma-core 18 and 19 send 16 bytes of the 24; the rest is there.
		if hdr.Command == uapi.CmdDestroyCQ && n == 16 {
			return uint64(m.req + uapi.CmdHdrSize), nil
		}
		return 0, unix.ENOSPC
	}
	if int(hdr.OutWords)*4 < m.resp {
		return 0, unix.ENOSPC
	}
	return n, nil
}

// readAll completes what the first read began.
func (k *call) readAll(buf, n uint64, b []byte) ([]byte, error) {
	if n <= uint64(len(b)) {
		return b[:n], nil
	}
	all := make([]byte, n) // at most 1 MiB, by the header's fields
	copy(all, b)
	return all, k.c.Read(buf+uint64(len(b)), all[len(b):])
}

// split finds the parts of a plain command.
func (m *command) split(k *call, hdr *uapi.CmdHdr, in []byte) {
	out := int(hdr.OutWords) * 4
	var response uint64
	if m.responds {
		response = uapi.Load[uint64](in)
	}
	k.in, k.out = in, reply{addr: response, size: out}
	if m.udata {
		k.in, k.uhwIn = in[:m.req], in[m.req:]
		if m.responds {
			k.out.size = m.resp
			k.uhwOut = reply{addr: response + uint64(m.resp), size: out - m.resp}
		}
	}
}

// writeEx is the extended form: lengths in words of 8 bytes, and the address of
// the response in the header.
func (k *call) writeEx(m *command, hdr *uapi.CmdHdr, buf, n uint64, b []byte, readErr error) error {
	const headers = uapi.CmdHdrSize + uapi.CmdExHdrSize
	switch {
	case n < headers:
		return unix.EINVAL
	case readErr != nil:
		return readErr
	}
	ex := uapi.Load[uapi.CmdExHdr](b[uapi.CmdHdrSize:])
	if err := verifyEx(hdr, &ex, n-headers); err != nil {
		return err
	}
	b, err := k.readAll(buf, n, b)
	if err != nil {
		return err
	}
	core := headers + int(hdr.InWords)*8
	k.in, k.uhwIn = b[headers:core], b[core:]
	k.out = reply{addr: ex.Response, size: int(hdr.OutWords) * 8}
	k.uhwOut = reply{addr: ex.Response + uint64(k.out.size), size: int(ex.ProviderOutWords) * 8}
	return m.handle(k)
}

func verifyEx(hdr *uapi.CmdHdr, ex *uapi.CmdExHdr, body uint64) error {
	out := hdr.OutWords != 0 || ex.ProviderOutWords != 0
	switch {
	case (uint64(hdr.InWords)+uint64(ex.ProviderInWords))*8 != body:
		return unix.EINVAL
	case ex.CmdHdrReserved != 0:
		return unix.EINVAL
	case (ex.Response != 0) != out:
		return unix.EINVAL
	}
	return nil
}
