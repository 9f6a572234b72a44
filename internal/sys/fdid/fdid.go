// Package fdid says how an open file is recognized: by the device and inode
// numbers of fstat. A program names a file by the number of a descriptor, which
// means something in that program only, and which dup, fork and SCM_RIGHTS
// multiply. What fstat reports is the same for all of them.
//
// Files of one filesystem have different inodes only if each has an inode of its
// own: memfds, pipes and sockets have; all eventfds and epolls share one.
package fdid

import "golang.org/x/sys/unix"

// ID tells open files apart. Duplicates of a descriptor have the same ID.
type ID struct{ Dev, Ino uint64 }

// FromStat returns the ID of the file that st describes.
func FromStat(st *unix.Stat_t) ID { return ID{Dev: uint64(st.Dev), Ino: st.Ino} }

// Of returns the ID of the file behind one of this process's own descriptors.
func Of(fd int) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ID{}, err
	}
	return FromStat(&st), nil
}
