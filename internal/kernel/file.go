package kernel

// File is an open file that the trap serves: what the kernel keeps behind a descriptor
// of a device. Its methods may be called by several threads at once. Their errors are
// unix.Errno values.
//
// Addresses and lengths are the program's: a File reaches its memory through the Caller
// only.
type File interface {
	// FD returns the daemon's descriptor of the file that becomes the program's: a
	// memfd, a pipe or a socket. The program's kernel answers poll, epoll and mmap on it.
	// The descriptor stays the File's, and open until Close.
	FD() int
	Read(c Caller, buf, n uint64) (int64, error)
	Write(c Caller, buf, n uint64) (int64, error)
	Ioctl(c Caller, cmd uint32, arg uint64) (int64, error)
	// Close is called once, when no descriptor of the program refers to the file.
	Close()
}

// StatFile is a File that says itself what fstat reports. Other files are reported as
// the node of the tree that the program opened.
type StatFile interface {
	File
	Stat() Stat
}

// Stat is what fstat reports of a File.
type Stat struct {
	Mode uint32
	Rdev uint64
	Size int64
}

// DoorbellFile is a File whose doorbells need not be trapped. The program's write then
// goes to the file behind the descriptor, and inotify tells the trap.
type DoorbellFile interface {
	File
	// DoorbellOffset returns the position in the file at which the writes of doorbells do
	// no harm. The program's description of the file must stand there.
	DoorbellOffset() int64
	// TakeDoorbells does the work of doorbells that were not trapped, or some of it. It
	// reports whether it should be called again.
	TakeDoorbells() (more bool)
	// Sweep gives back the memory that doorbells have filled. It is called now and then
	// while there are doorbells, and does not block.
	Sweep()
}
