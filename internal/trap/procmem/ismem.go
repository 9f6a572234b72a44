package procmem

import (
	"path"
	"strconv"

	"os"

	"golang.org/x/sys/unix"
)

// IsMem reports whether a descriptor is the mem file of some process in a proc file system.
// A file of another file system could make each access call its server.
func IsMem(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return false
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	return err == nil && path.Base(name) == "mem"
}
