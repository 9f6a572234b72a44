package vfs

import (
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"golang.org/x/sys/unix"
)

// number is a field of struct stat, which are not of one type everywhere.
type number interface {
	~int32 | ~int64 | ~uint32 | ~uint64
}

func set[T number](field *T, v uint64) { *field = T(v) }

// Stat describes a node as stat(2) does.
func (m Mounts) Stat(n *tree.Node) unix.Stat_t {
	var st unix.Stat_t
	from := n.Stat()
	set(&st.Dev, m.deviceOf(n))
	set(&st.Ino, from.Ino)
	set(&st.Mode, uint64(from.Mode))
	set(&st.Nlink, uint64(from.Nlink))
	st.Uid = from.UID
	set(&st.Rdev, from.Rdev)
	set(&st.Size, uint64(from.Size))
	set(&st.Blksize, blockSize)
	st.Mtim = unix.NsecToTimespec(from.Mtime.UnixNano())
	st.Atim, st.Ctim = st.Mtim, st.Mtim
	return st
}

// Statx describes a node as statx(2) does.
func (m Mounts) Statx(n *tree.Node) unix.Statx_t {
	from := n.Stat()
	t := unix.StatxTimestamp{Sec: from.Mtime.Unix(), Nsec: uint32(from.Mtime.Nanosecond())}
	dev := m.deviceOf(n)
	return unix.Statx_t{
		Mask: unix.STATX_BASIC_STATS, Blksize: blockSize,
		Ino: from.Ino, Mode: uint16(from.Mode), Nlink: from.Nlink, Size: uint64(from.Size),
		Uid:   from.UID,
		Atime: t, Mtime: t, Ctime: t,
		Rdev_major: unix.Major(from.Rdev), Rdev_minor: unix.Minor(from.Rdev),
		Dev_major: unix.Major(dev), Dev_minor: unix.Minor(dev),
	}
}

// Mounts are the file systems that nodes seem to be on: their st_dev, 0 in a
// container that lacks them.
type Mounts struct{ dev, sys uint64 }

// FindMounts looks at the host's file systems.
func FindMounts() Mounts { return Mounts{dev: deviceAt("/dev"), sys: deviceAt("/sys")} }

func deviceAt(dir string) uint64 {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0
	}
	return fdid.FromStat(&st).Dev
}

func (m Mounts) deviceOf(n *tree.Node) uint64 {
	if inSysfs(n) {
		return m.sys
	}
	return m.dev
}

func inSysfs(n *tree.Node) bool { return strings.HasPrefix(n.Path, "/sys/") }

// Statfs describes the file system that the node seems to be on.
func Statfs(n *tree.Node) unix.Statfs_t {
	var st unix.Statfs_t
	st.Type = unix.TMPFS_MAGIC
	if inSysfs(n) {
		st.Type = unix.SYSFS_MAGIC
	}
	st.Bsize, st.Frsize, st.Namelen = blockSize, blockSize, unix.NAME_MAX
	return st
}
