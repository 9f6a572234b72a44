package ucma

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// command is a row of ucma.c's ucma_cmd_table.
type command struct {
	run func(*call) error
	// verb is the call of librdmacm that the command belongs to. rdma_get_cm_event is not among
	// them: it waits, and is made again. Some commands are only parts of calls.
	verb   string
	answer int // the least room for the answer, or else ENOSPC
}

// commands is filled by init, because the handlers refer to it.
var commands [uapi.UcmaCommands]command

func init() {
	commands = [uapi.UcmaCommands]command{
		uapi.UcmaCreateID:         {run: reading((*call).createID), verb: "rdma_create_id", answer: uapi.SizeOf[uapi.UcmaID]()},
		uapi.UcmaDestroyID:        {run: reading((*call).destroyID), verb: "rdma_destroy_id", answer: uapi.SizeOf[uapi.UcmaReported]()},
		uapi.UcmaBindIP:           {run: reading((*call).bindIP), verb: "rdma_bind_addr"},
		uapi.UcmaResolveIP:        {run: reading((*call).resolveIP), verb: "rdma_resolve_addr"},
		uapi.UcmaResolveRoute:     {run: reading((*call).resolveRoute), verb: "rdma_resolve_route"},
		uapi.UcmaQueryRoute:       {run: reading((*call).queryRoute), answer: uapi.UcmaQueryRouteMin},
		uapi.UcmaConnect:          {run: (*call).connect, verb: "rdma_connect"},
		uapi.UcmaListen:           {run: reading((*call).listen), verb: "rdma_listen"},
		uapi.UcmaAccept:           {run: (*call).accept, verb: "rdma_accept"},
		uapi.UcmaReject:           {run: reading((*call).reject), verb: "rdma_reject"},
		uapi.UcmaDisconnect:       {run: reading((*call).disconnect), verb: "rdma_disconnect"},
		uapi.UcmaInitQPAttr:       {run: reading((*call).initQPAttr), verb: "rdma_init_qp_attr", answer: uapi.SizeOf[uapi.QPAttr]()},
		uapi.UcmaGetEvent:         {run: reading((*call).getEvent), answer: uapi.UcmaEventMin},
		uapi.UcmaSetOption:        {run: reading((*call).setOption), verb: "rdma_set_option"},
		uapi.UcmaNotify:           {run: reading((*call).notify), verb: "rdma_notify"},
		uapi.UcmaJoinIPMcast:      {run: reading((*call).joinIPMcast), verb: "rdma_join_multicast", answer: uapi.SizeOf[uapi.UcmaID]()},
		uapi.UcmaLeaveMcast:       {run: reading((*call).leaveMcast), verb: "rdma_leave_multicast", answer: uapi.SizeOf[uapi.UcmaReported]()},
		uapi.UcmaMigrateID:        {run: reading((*call).migrateID), verb: "rdma_migrate_id"},
		uapi.UcmaQuery:            {run: reading((*call).query)},
		uapi.UcmaBind:             {run: reading((*call).bind), verb: "rdma_bind_addr"},
		uapi.UcmaResolveAddr:      {run: reading((*call).resolveAddr), verb: "rdma_resolve_addr"},
		uapi.UcmaJoinMcast:        {run: reading((*call).joinMcast), verb: "rdma_join_multicast", answer: uapi.SizeOf[uapi.UcmaID]()},
		uapi.UcmaResolveIBService: {run: reading((*call).resolveIBService)},
		uapi.UcmaWriteCMEvent:     {run: reading((*call).writeCMEvent)},
	}
}

// call is one command on its way through a handler.
type call struct {
	kernel.Caller
	f    *File
	dev  *Device
	size int64  // of the write, which returns it
	body uint64 // the address of the request
	in   int    // its length, by the header
	out  int    // the room for the answer
	got  []byte // what is known of the request: all of it, if it has the usual length
	buf  [maxCommand]byte
}

// maxCommand is the room for a command that is read at once. The longest is WRITE_CM_EVENT, of
// 328 bytes.
const maxCommand = 336

// Write answers write(fd, buf, n): one command. It returns n, or a unix.Errno (ucma.c:
// ucma_write).
func (f *File) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	if n < uapi.UcmaHdrSize {
		return 0, f.report("", malformed("the command", "is shorter than its header"))
	}
	k := &call{Caller: c, f: f, dev: f.dev, size: int64(n), body: buf + uapi.UcmaHdrSize}
	hdr, err := k.begin(buf, n)
	switch {
	case err != nil:
		return 0, err
	case hdr.Cmd >= uint32(len(commands)):
		return 0, f.report("", malformed("the command", "is none that the kernel has"))
	case uint64(hdr.In)+uapi.UcmaHdrSize > n:
		return 0, f.report("", malformed("the command", "is shorter than its header says"))
	case commands[hdr.Cmd].run == nil: // GET_OPTION
		return 0, unix.ENOSYS
	}
	k.in, k.out = int(hdr.In), int(hdr.Out)
	cmd := &commands[hdr.Cmd]
	if cmd.verb != "" {
		err = f.faults.Pass(cmd.verb)
	}
	if err == nil {
		err = k.room(cmd.answer)
	}
	if err == nil {
		err = cmd.run(k)
	}
	if err != nil {
		return 0, f.refused(cmd.verb, err)
	}
	return k.size, nil
}

// refused tells of a call that failed, and returns what the program sees. Commands that wait, and
// those that are only parts of calls, are left out.
func (f *File) refused(verb string, err error) error {
	if verb == "" {
		return errnoOf(err)
	}
	return f.report(verb, err)
}

// report is refused for each verb; it is empty if the call is not known.
func (f *File) report(verb string, err error) error {
	seen := errnoOf(err)
	if errno, ok := seen.(unix.Errno); ok && f.refusals != nil {
		f.refusals.Refused(verb, errno, err)
	}
	return seen
}

// errnoOf is the one place where an error becomes what the program sees.
func errnoOf(err error) error {
	if err == kernel.ErrWait {
		return err
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EINVAL
}

// begin reads the header, and the request with it if the program has written no more. An access
// to a program's memory is a system call.
func (k *call) begin(buf, n uint64) (hdr uapi.UcmaHdr, err error) {
	all := k.buf[:min(n, maxCommand)]
	if err := k.Read(buf, all); err != nil {
		// some commands have no body, and the memory behind the header may not exist
		all = all[:uapi.UcmaHdrSize]
		if err := k.Read(buf, all); err != nil {
			return hdr, err
		}
	}
	k.got = all[copy(uapi.BytesOf(&hdr), all):]
	return hdr, nil
}

// readBody reads the first bytes of the request.
func (k *call) readBody(b []byte) error {
	if len(b) <= len(k.got) {
		copy(b, k.got)
		return nil
	}
	return k.Read(k.body, b)
}

// reading returns a handler that first reads the request. Like the kernel it reads all of a T,
// whatever the header says of the length.
func reading[T any](h func(*call, *T) error) func(*call) error {
	return func(k *call) error {
		req := new(T)
		if err := k.readBody(uapi.BytesOf(req)); err != nil {
			return err
		}
		return h(k, req)
	}
}

// requestOf returns a request whose last fields older programs do not send. These fields
// are then zero. EINVAL if the request is shorter than least.
func requestOf[T any](k *call, least int) (v T, err error) {
	if k.in < least {
		return v, malformed("the request", "is too short")
	}
	b := uapi.BytesOf(&v)
	err = k.readBody(b[:min(len(b), k.in)])
	return v, err
}

// room returns ENOSPC if there is no room for an answer of n bytes.
func (k *call) room(n int) error {
	if k.out < n {
		return unix.ENOSPC
	}
	return nil
}

// respond writes an answer, or as much of it as there is room for.
func respond[T any](k *call, addr uint64, v *T) error {
	b := uapi.BytesOf(v)
	return k.Write(addr, b[:min(len(b), k.out)])
}
