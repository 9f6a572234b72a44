package vfs

// All numbers of this package, except those of the kernel's ABI. What is said of them, at twice and
// at half, is reasoned and not measured.
const (
	// DirentChunk bounds what one getdents writes, in bytes, whatever buffer there is. It is the
	// buffer of glibc's readdir. Twice: a program can make the daemon hold 64 KiB for each call.
	// Half: two calls for each directory of 400 entries or more.
	DirentChunk = 32 << 10
	// blockSize is what stat says is a good size to read, in bytes: a page. Files of sysfs are
	// no longer, so twice or half changes nothing.
	blockSize = 4096
)
