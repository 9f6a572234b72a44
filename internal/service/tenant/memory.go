package tenant

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Memory is how many bytes a process may use, and what limits them.
type Memory struct {
	Bytes int64
	Bound string
}

// Machine returns the machine's memory.
func Machine() Memory {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return Memory{}
	}
	return Memory{int64(info.Totalram) * int64(info.Unit), "the machine's memory"}
}

// Within returns the least of m and the limits of this process's memory control groups, up to
// the root of the hierarchy. A limit that it cannot read does not count. Files is the root
// directory.
func (m Memory) Within(files fs.FS) Memory {
	v2, v1 := []string{"memory.max", "memory.high"}, []string{"memory.limit_in_bytes"}
	groupFiles(files, "memory", v2, v1, func(name string) {
		if n, ok := readLimit(files, name); ok && (m.Bytes == 0 || n < m.Bytes) {
			m = Memory{n, name}
		}
	})
	return m
}
