package kernel

import "errors"

// File is an open file that the trap serves: what the kernel keeps behind a descriptor
// of a device. Its methods may be called by several threads at once. Their errors are
// unix.Errno values.
//
// Addresses and lengths are the program's: a File reaches its memory through the Caller
// only.
type File interface {
	// FD returns the daemon's descriptor of the file that becomes the program's: a
	// memfd, or that of a PollFile. The program's kernel answers poll, epoll and mmap on
	// it. The descriptor stays the File's, and open until Close.
	FD() int
	// Read, Write and Ioctl do not block for what another thread or a peer has to do.
	// They return ErrWait instead.
	Read(c Caller, buf, n uint64) (int64, error)
	Write(c Caller, buf, n uint64) (int64, error)
	Ioctl(c Caller, cmd uint32, arg uint64) (int64, error)
	// Close is called once, when no descriptor of the program refers to the file.
	Close()
}

// ErrWait is the error of a call that has nothing to return yet, and that has changed
// nothing. On a descriptor with O_NONBLOCK the trap answers EAGAIN. Otherwise the call
// waits, and the trap makes it again when the File is ready. Only a PollFile returns it.
//
// A waiting call occupies no thread, and the File does not know of it. The trap ends it
// when a signal interrupts it, or when its thread is killed. A File that gives away what
// it cannot give twice therefore answers with Caller.Deliver.
var ErrWait = errors.New("the call has to wait")

// ErrKernel is the error of a call that the program's kernel carries out on the descriptor:
// the read from a socket, for one, if the daemon sends to that socket.
var ErrKernel = errors.New("the kernel carries out the call")

// PollFile is a File whose descriptor in the program is one end of a pipe or of a socket
// pair. So the program's kernel answers poll, select and epoll.
type PollFile interface {
	File
	// Poll returns the daemon's end, on which poll(2) reports POLLERR or POLLHUP when
	// the program has closed the last of its descriptors. A Unix socket of datagrams reports
	// neither. The end stays the File's, and open until Close.
	Poll() int
	// HandedOver is called once, when the program has its descriptor. The File then
	// closes FD, or the daemon would keep the program's end open. A program that ends at
	// once may have Close called at the same time, or before.
	HandedOver()
	// OnReady is called once, before all other calls. The File calls ready whenever it
	// has something that a waiting call can return. It may hold locks then: ready does
	// not block, and does not call the File.
	OnReady(ready func())
}

// DoorbellFile is a File whose doorbells need not be trapped. The program's write then
// goes to the file behind the descriptor, and inotify tells the trap. Or it goes to a pipe that
// replaces that file while the program does not map a queue.
type DoorbellFile interface {
	File
	// DoorbellOffset returns the position in the file at which the writes of doorbells do
	// no harm. The program's description of the file must stand there.
	DoorbellOffset() int64
	// Mappings returns how many times so far a call has told its thread to map a part of the
	// file. pipe reports whether a pipe may replace the file meanwhile, because the program can
	// ring, and such a thread maps before it makes another call on the file.
	Mappings() (told uint64, pipe bool)
	// TakeDoorbells does the work of doorbells that were not trapped, or some of it. With credited
	// set, it leaves messages for a later call that have no receive work request at their peer.
	TakeDoorbells(credited bool) Doorbells
	// Sweep gives back the memory that doorbells have filled. It is called now and then
	// while there are doorbells, and does not block.
	Sweep()
	// Belled tells how the program's writes reach the device, before the program can write.
	Belled(DoorbellKind)
}

// DoorbellKind says how the doorbells of an open device reach it (docs/doorbells.md).
type DoorbellKind struct {
	How string
	Why string // of DoorbellTrapped and DoorbellPolled
}

// The values of DoorbellKind.How. The last two are those of a device whose doorbell is a store.
const (
	DoorbellDirect  = "direct"
	DoorbellTrapped = "trapped"
	DoorbellWoken   = "woken"
	DoorbellPolled  = "polled"
)

// NumberedFile is a DoorbellFile that may know where the program keeps the number of its
// descriptor.
type NumberedFile interface {
	DoorbellFile
	// NumberAt returns where in the program's memory the number is that its library makes calls
	// with. It may be wrong: the caller looks whether the number is there.
	NumberAt(c Caller) (addr uint64, ok bool)
}

// Doorbells is what one call of DoorbellFile.TakeDoorbells did.
type Doorbells struct {
	Requests int  // work requests that it handed to the engine
	Awaited  int  // how many of them the program seems to wait for, one at a time
	More     bool // TakeDoorbells should be called again
	// a message waits for a receive work request: TakeDoorbells should be called again, after a
	// pause
	NoCredit bool
}
