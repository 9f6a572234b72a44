// Package kernel is what the kernel's files and the trap know of each other. uverbs and
// the other files of /dev/infiniband belong to a kernel that does not exist: they answer
// system calls. The trap brings them the calls, and a Caller for the thread that makes
// each call.
//
// The packages below it are the families of files, and their common parts. A file does
// not know how a system call reached it, and the trap does not know what a file is for.
package kernel
