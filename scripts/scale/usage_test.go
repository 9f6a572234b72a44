package main

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUsage: a new instance of inotify is counted, and so is its descriptor. This process is a
// child of its parent.
func TestUsage(t *testing.T) {
	children, err := processes()
	if err != nil || !slices.Contains(children[os.Getppid()], os.Getpid()) {
		t.Errorf("the children of process %d are %v, %v", os.Getppid(), children[os.Getppid()], err)
	}
	var before, after usage
	if err := before.add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := after.add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if after.inotify != before.inotify+1 || after.descriptors != before.descriptors+1 {
		t.Errorf("before %+v, with one more instance %+v", before, after)
	}
	if after.processes != 1 || after.memory < 1<<16 || after.threads < 1 || after.switches < 1 || after.processor <= 0 {
		t.Errorf("this process has taken %+v", after)
	}
}
