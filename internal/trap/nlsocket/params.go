package nlsocket

// All numbers of this package, except those of the kernel's ABI. What is said of them, at twice and
// at half, is reasoned and not measured.
const (
	// Buffers, in bytes. A socket has defaultBuffer, which is net.core.rmem_default. SO_RCVBUF
	// gives twice mostBuffer at most, and SO_RCVBUFFORCE twice forcedBuffer. The user's budget
	// bears what waits in them. Twice: a program that reads nothing has more in the daemon. Half: a
	// socket loses datagrams that the kernel would keep.
	defaultBuffer = 212992
	mostBuffer    = 1 << 20
	forcedBuffer  = 4 << 20
	// overhead is an estimate of what a datagram costs besides its bytes. Half: many short ones
	// cost the daemon more than the budget says.
	overhead = 64
	// ports is how many ports there are for sockets whose program chose none. The next one has the
	// first one's again. Twice: they are no longer negative numbers, as the kernel's are.
	ports = 1 << 30
)
