// Package vfs is the file tree (package tree) as system calls show it. lookup.go finds what a
// path names. stat.go has what stat and statfs say of a node, and directory.go how a directory
// is read. live.go has files that say something new at each read.
//
// It knows no process, descriptor or trapped call. Package trap has the handlers, which read
// the arguments of a call and write its results.
package vfs
