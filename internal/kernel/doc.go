// Package kernel is what the kernel's files and the trap know of each other. The files
// of a kernel that does not exist (uverbs, and others of /dev/infiniband) answer system
// calls; the trap brings the calls, and a Caller for the thread that makes each.
//
// The packages below it are the files, one for each family, and their common parts. No
// file knows how a system call reached it, and the trap does not know what a file is.
package kernel
