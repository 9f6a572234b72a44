package inflight

// All numbers of this package. What is said of them, at twice and at half, is reasoned and not
// measured.
const (
	// Slots bounds the threads of a session that have a call in hand. trap needs 34 (maxBlocked,
	// and the receivers). Twice: 12 KiB. Half: 30 to spare.
	Slots = 128
	// MaxWaiting bounds the calls of a session that wait. Beyond it they get ENOMEM. Twice: 8 KiB.
	// Half: a program with 513 threads that wait for events gets ENOMEM.
	MaxWaiting = 1024
	// maxPollable bounds its pollable files that the keeper knows. Twice: 16 KiB. Half: if the
	// daemon dies, descriptors beyond those stay silent.
	maxPollable = 2048
	// sharedSize is the file with all three, in bytes: whole pages. The compiler checks that they
	// fit.
	sharedSize = 10 * pageSize
	pageSize   = 4096
)
