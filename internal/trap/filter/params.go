package filter

// All numbers of this package, except those of the kernel's ABI. What is said of them, at twice and
// at half, is reasoned and not measured.

// MaxNR bounds the numbers of trapped calls. Linux has 470. Twice: a table of 4 KiB more. Half:
// openat2 has no place.
const MaxNR = 512

// Descriptors. The range lies just below the soft limit of open files, because the kernel refuses
// higher numbers. It also lies below selectTop: select(2) takes no higher ones, and programs call
// it for event channels and rsockets. With a higher limit, Overflow has what finds no room.
const (
	selectTop = 1024 // linux/posix_types.h: __FD_SETSIZE
	// maxTop bounds the numbers of Overflow. The kernel's table of descriptors is as large as the
	// highest number: 256 KiB for this one. Twice: 512 KiB for each process. Half: 7,680 devices
	// and event channels.
	maxTop = 32768
	// maxCount is the length of the range, if the limit allows it. Twice: a program with 1,024
	// descriptors has 160 fewer for itself. Half: from about the
	// 70th on, devices lie in Overflow.
	maxCount = 160
	// leastTop is the lowest limit with which a program has a device. Twice: a program with a limit
	// of 32 has none. Half: the range has four numbers.
	leastTop = 32
	// shareOf: the range takes a quarter of a low limit. Twice: an eighth, and a limit of 32 has
	// four. Half: few numbers are left for the program.
	shareOf = 4
	// directOf: a fifth of the range is for direct doorbells. Half: two fifths, and fewer devices
	// of the other kind. Twice: the 17th device has slow doorbells.
	directOf = 5
	// deviceRoom is how many numbers of the range are for devices and directories only, or an
	// eighth of a short range (roomOf). Twice: fewer completion channels find room. Half: a program
	// with 120 devices can open four directories.
	deviceRoom = 8
	roomOf     = 8
	// maxPollable is how many pollable files a process may have below selectTop. librdmacm opens
	// one for each connection of its synchronous interface. Twice: no more, because of freeOf.
	// Half: 264 connections.
	maxPollable = 528
	// freeOf: a quarter of what lies below the files stays free for the program. Twice: a program
	// with 88 files and sockets finds no number below 1,024. Half: 352 connections.
	freeOf = 4
)
