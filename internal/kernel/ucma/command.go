package ucma

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/uapi"
)

// commands are ucma.c's ucma_cmd_table. init fills it, because the handlers refer to it.
var commands [uapi.UcmaCommands]func(*call) error

func init() {
	commands = [uapi.UcmaCommands]func(*call) error{
		uapi.UcmaCreateID:         (*call).createID,
		uapi.UcmaDestroyID:        (*call).destroyID,
		uapi.UcmaBindIP:           (*call).bindIP,
		uapi.UcmaResolveIP:        (*call).resolveIP,
		uapi.UcmaResolveRoute:     (*call).resolveRoute,
		uapi.UcmaQueryRoute:       (*call).queryRoute,
		uapi.UcmaConnect:          (*call).connect,
		uapi.UcmaListen:           (*call).listen,
		uapi.UcmaAccept:           (*call).accept,
		uapi.UcmaReject:           (*call).reject,
		uapi.UcmaDisconnect:       (*call).disconnect,
		uapi.UcmaInitQPAttr:       (*call).initQPAttr,
		uapi.UcmaGetEvent:         (*call).getEvent,
		uapi.UcmaSetOption:        (*call).setOption,
		uapi.UcmaNotify:           (*call).notify,
		uapi.UcmaJoinIPMcast:      (*call).joinIPMcast,
		uapi.UcmaLeaveMcast:       (*call).leaveMcast,
		uapi.UcmaMigrateID:        (*call).migrateID,
		uapi.UcmaQuery:            (*call).query,
		uapi.UcmaBind:             (*call).bind,
		uapi.UcmaResolveAddr:      (*call).resolveAddr,
		uapi.UcmaJoinMcast:        (*call).joinMcast,
		uapi.UcmaResolveIBService: (*call).resolveIBService,
		uapi.UcmaWriteCMEvent:     (*call).writeCMEvent,
	}
}

// verbs are the calls of librdmacm that the commands belong to. rdma_get_cm_event is not among
// them: it waits, and is made again. Some commands are only parts of calls.
var verbs = [uapi.UcmaCommands]string{
	uapi.UcmaCreateID:     "rdma_create_id",
	uapi.UcmaDestroyID:    "rdma_destroy_id",
	uapi.UcmaBindIP:       "rdma_bind_addr",
	uapi.UcmaBind:         "rdma_bind_addr",
	uapi.UcmaResolveIP:    "rdma_resolve_addr",
	uapi.UcmaResolveAddr:  "rdma_resolve_addr",
	uapi.UcmaResolveRoute: "rdma_resolve_route",
	uapi.UcmaConnect:      "rdma_connect",
	uapi.UcmaListen:       "rdma_listen",
	uapi.UcmaAccept:       "rdma_accept",
	uapi.UcmaReject:       "rdma_reject",
	uapi.UcmaDisconnect:   "rdma_disconnect",
	uapi.UcmaInitQPAttr:   "rdma_init_qp_attr",
	uapi.UcmaSetOption:    "rdma_set_option",
	uapi.UcmaNotify:       "rdma_notify",
	uapi.UcmaJoinIPMcast:  "rdma_join_multicast",
	uapi.UcmaJoinMcast:    "rdma_join_multicast",
	uapi.UcmaLeaveMcast:   "rdma_leave_multicast",
	uapi.UcmaMigrateID:    "rdma_migrate_id",
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
	case commands[hdr.Cmd] == nil: // GET_OPTION
		return 0, unix.ENOSYS
	}
	k.in, k.out = int(hdr.In), int(hdr.Out)
	if verb := verbs[hdr.Cmd]; verb != "" {
		if err := f.faults.Pass(verb); err != nil {
			return 0, f.refused(verb, err)
		}
	}
	if err := commands[hdr.Cmd](k); err != nil {
		return 0, f.refused(verbs[hdr.Cmd], err)
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

// request returns the request as a T. Like the kernel it reads all of a T, whatever the
// header says of the length.
func request[T any](k *call) (v T, err error) {
	err = k.readBody(uapi.BytesOf(&v))
	return v, err
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
