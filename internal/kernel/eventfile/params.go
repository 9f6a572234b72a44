package eventfile

// All numbers of this package. They are chosen, not measured.
const (
	// maxEventSize is the largest record, in bytes: struct ib_uverbs_async_event_desc.
	maxEventSize = 16
	// pipeBuf is the size of the largest write that a pipe takes as a whole or not at all
	// (PIPE_BUF). It is a multiple of every record's size.
	pipeBuf = 4096
	// pipeMemory is an estimate, on the safe side: the kernel limits how much memory a user's pipes
	// take (pipe-user-pages-soft).
	pipeMemory = 64 << 10
	// maxPipe bounds how much drain reads, drainBytes at a time: the largest pipe that an ordinary
	// user gets (pipe-max-size). A program can write to the pipe as fast as drain reads it.
	maxPipe    = 1 << 20
	drainBytes = 16 * pipeBuf

	// maxPortEvents bounds the list for events of the port. Beyond it, a new event replaces the
	// last one. Twice: 100 KiB more for a program that reads none. Half: 2,048 changes of a port
	// are kept.
	maxPortEvents = 4096
	// A list looks for closed files when it has fewEventFiles, and then when it has grown.
	fewEventFiles = 16
	// fewToSweep files are looked through at each look. With more, a goner says whether one was
	// closed. It costs a descriptor. Twice: each look takes twice as long.
	fewToSweep = 64
	// maxEventFiles bounds those of one kind, for one open. Each takes a descriptor of the daemon.
	maxEventFiles = 4096
	// closesPerRead is how many closes one epoll_wait reports.
	closesPerRead = 64
)
