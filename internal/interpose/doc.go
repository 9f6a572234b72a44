// Package interpose stands between a program and the kernel: with seccomp user
// notification it sees the system calls that could concern an RDMA device, answers
// those that do from package uverbs and package sysfs, and lets all others
// continue in the kernel.
//
// # The way of a system call
//
//  1. filter.go: a classic BPF program, installed by Install in the child that
//     becomes the program, sorts calls by number and arguments. Calls that name a
//     file are trapped; calls on a descriptor only if its number lies in the
//     filter.Range, where all descriptors of ours are kept, and fstat also below it,
//     where files of the tree are that the kernel reads.
//  2. receiver.go: a thread receives the notification and answers it, to
//     completion. calls.go says by which handler.
//  3. paths.go, answer_path.go: what a path names; the tree of package sysfs
//     answers, or the kernel.
//  4. objects.go, files.go, answer_fd.go, answer_dir.go: what a descriptor is. It
//     is recognised by what it refers to (device and inode of a memfd, or its
//     name), not by its number.
//  5. caller.go, process.go: the calling thread, its process, and that process's
//     address space (package procmem), which is what memory regions belong to.
//
// watchdog.go replaces a receiver that is caught in a program's memory;
// housekeeping.go learns of ended processes, and closes.go of closed files;
// fallback.go is what the keeper does when the daemon has died.
//
// # What is not seen
//
// Calls that pass the filter by reach the kernel as they would without gorxe:
// io_uring; a descriptor that was sent to another process over a socket or moved
// below the range by dup2; a path that leads to the tree through a symbolic link,
// /proc/self/root or a bind mount; a newfstatat or statx with AT_EMPTY_PATH and
// both a path and a descriptor below the range (glibc's fstat has that form, and
// trapping it would make every fstat of every program slow). A program that does
// so gets what a host without the device gives it, usually ENOENT or ENOTTY.
//
// The range of descriptors is fixed when the filter is made. A program that lowers
// its own limit of open files below it gets EMFILE for devices and directories of
// the tree.
//
// The trap is no security boundary against the program: it runs with its own
// rights, and only what it does through the device is checked.
package interpose
