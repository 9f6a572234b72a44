// Package eventfile makes the kernel's pollable files: files that a program waits on
// with poll or epoll, and that hold a queue of records for it. Each is a pipe, so the
// program's own kernel answers poll, epoll and the read of a record.
//
// A Pipe carries the records themselves: completion channels and asynchronous event
// files. A Level only says whether there are records, for files that return them by other
// calls than read. A List holds the files that one open has made, and finds them by what
// a descriptor of the program refers to.
//
// The package knows what pipes do, and not what a record means.
package eventfile
