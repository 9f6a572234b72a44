package dispatch

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// Tables are the methods and commands of a device.
type Tables struct {
	Methods    map[MethodKey]*MethodSpec
	Commands   []Command // plain ones, by number
	ExCommands []Command // extended ones
	// Absent are the types of objects that the device does not have: no handle names one.
	Absent map[uapi.ObjectType]bool
}

// Command is how a write() command is framed (UAPI_DEF_WRITE_* of uverbs_cmd.c).
type Command struct {
	Name      string
	Verb      string // what Owner.Verb is called with; "": it is not called
	Handle    func(*Call) error
	Req, Resp int  // bytes of the core structs; 0 for extended ones, which may grow
	Ex        bool // extended
	Udata     bool // the provider's parts follow the core structs
	Responds  bool // the request begins with the address of the response
}

// commandFor finds a command (rdma_core.h:uapi_get_method).
func (t *Tables) commandFor(number uint32) (*Command, error) {
	if number&^(uapi.CmdExtended|uapi.CmdMask) != 0 {
		return nil, malformed("command", "has unknown bits")
	}
	table := t.Commands
	if number&uapi.CmdExtended != 0 {
		table = t.ExCommands
	}
	i := number & uapi.CmdMask
	if int(i) >= len(table) {
		return nil, unix.EOPNOTSUPP
	}
	return &table[i], nil
}

// Write reads a command with as few reads as it takes: a doorbell is one.
func (k *Call) Write(tables *Tables, buf, n uint64) error {
	k.Size, k.tables = int64(n), tables
	b := k.scratch[:min(n, uint64(len(k.scratch)))]
	readErr := k.Caller.Read(buf, b)
	if readErr != nil {
		// The kernel looks at the header first, and may find fault with it.
		if err := k.Caller.Read(buf, b[:uapi.CmdHdrSize]); err != nil {
			return err
		}
	}
	hdr := uapi.Load[uapi.CmdHdr](b)
	m, err := tables.commandFor(hdr.Command)
	if err != nil {
		return err
	}
	if m.Ex {
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
	return k.handle(m)
}

// verify is uverbs_main.c:verify_hdr for plain commands. It returns how much to
// read.
func (m *Command) verify(hdr *uapi.CmdHdr, n uint64) (uint64, error) {
	if uint64(hdr.InWords)*4 != n {
		return 0, malformed("in_words", "differs from the length of the write")
	}
	if n < uint64(m.Req+uapi.CmdHdrSize) {
		// rdma-core 18 and 19 send 16 bytes of the 24; the rest is there.
		if hdr.Command == uapi.CmdDestroyCQ && n == 16 {
			return uint64(m.Req + uapi.CmdHdrSize), nil
		}
		return 0, unix.ENOSPC
	}
	if int(hdr.OutWords)*4 < m.Resp {
		return 0, unix.ENOSPC
	}
	return n, nil
}

// readAll completes what the first read began.
func (k *Call) readAll(buf, n uint64, b []byte) ([]byte, error) {
	if n <= uint64(len(b)) {
		return b[:n], nil
	}
	all := make([]byte, n) // at most 1 MiB, by the header's fields
	copy(all, b)
	return all, k.Caller.Read(buf+uint64(len(b)), all[len(b):])
}

// split finds the parts of a plain command.
func (m *Command) split(k *Call, hdr *uapi.CmdHdr, in []byte) {
	out := int(hdr.OutWords) * 4
	var response uint64
	if m.Responds {
		response = uapi.Load[uint64](in)
	}
	k.In, k.Out = in, Reply{addr: response, Size: out}
	if m.Udata {
		k.In, k.UHWIn = in[:m.Req], in[m.Req:]
		if m.Responds {
			k.Out.Size = m.Resp
			k.UHWOut = Reply{addr: response + uint64(m.Resp), Size: out - m.Resp}
		}
	}
}

// writeEx is the extended form: lengths in words of 8 bytes, and the address of
// the response in the header.
func (k *Call) writeEx(m *Command, hdr *uapi.CmdHdr, buf, n uint64, b []byte, readErr error) error {
	const headers = uapi.CmdHdrSize + uapi.CmdExHdrSize
	switch {
	case n < headers:
		return malformed("command", "is shorter than its headers")
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
	k.In, k.UHWIn = b[headers:core], b[core:]
	k.Out = Reply{addr: ex.Response, Size: int(hdr.OutWords) * 8}
	k.UHWOut = Reply{addr: ex.Response + uint64(k.Out.Size), Size: int(ex.ProviderOutWords) * 8}
	return k.handle(m)
}

// handle executes a command whose request has been read.
func (k *Call) handle(m *Command) error {
	k.Method = m.Name
	if err := k.verb(m.Verb); err != nil {
		return err
	}
	return m.Handle(k)
}

func (k *Call) verb(name string) error {
	if name == "" {
		return nil
	}
	return k.owner.Verb(name)
}

func verifyEx(hdr *uapi.CmdHdr, ex *uapi.CmdExHdr, body uint64) error {
	out := hdr.OutWords != 0 || ex.ProviderOutWords != 0
	switch {
	case (uint64(hdr.InWords)+uint64(ex.ProviderInWords))*8 != body:
		return malformed("in_words and provider_in_words", "differ from the length of the write")
	case ex.CmdHdrReserved != 0:
		return malformed("cmd_hdr_reserved", "has reserved bits set")
	case (ex.Response != 0) != out:
		return malformed("response", "has an address without room, or room without an address")
	}
	return nil
}
