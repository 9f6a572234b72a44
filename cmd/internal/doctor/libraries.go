package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// libraryDirs are where distributions keep shared libraries. A program that brings its own
// libraries does not need these.
var libraryDirs = []string{
	"usr/lib/*-linux-gnu", "usr/lib64", "usr/lib",
	"usr/local/lib", "usr/local/lib64", "usr/local/lib/*-linux-gnu",
	"lib/*-linux-gnu", "lib64", "lib",
}

// nextPollRepaired is the release of rdma-core whose librxe counts completions correctly.
const nextPollRepaired = 55

// find returns the files that match a pattern in a directory of libraries, each once.
func (h *Host) find(pattern string) (found []string) {
	names := make(map[string]bool)
	for _, dir := range libraryDirs {
		list, _ := fs.Glob(h.Files, path.Join(dir, pattern)) // the patterns are ours
		for _, name := range list {
			if base := path.Base(name); !names[base] { // lib may be a link to usr/lib
				names[base] = true
				found = append(found, name)
			}
		}
	}
	return found
}

// rdmaCore returns the release of rdma-core in the name of a library: 44 of
// libibverbs.so.1.14.44.0.
func rdmaCore(name string) (release int, ok bool) {
	parts := strings.Split(path.Base(name), ".")
	if len(parts) < 3 {
		return 0, false
	}
	n, err := strconv.Atoi(parts[len(parts)-2])
	return n, err == nil
}

func (h *Host) libraries() []Finding {
	return []Finding{h.libibverbs(), h.librxe(), h.libmlx5(), h.librdmacm()}
}

func (h *Host) libibverbs() Finding {
	f := Finding{Subject: "libibverbs"}
	releases := h.releases("libibverbs.so.1.*.*.*")
	switch {
	case len(releases) == 0:
		f.Level, f.Text = Warning, "not found where distributions have it"
		f.Remedy = "Debian, Ubuntu: apt install ibverbs-providers; Fedora: dnf install libibverbs; programs with libraries of their own need nothing"
	case releases[0] < nextPollRepaired:
		f.Level, f.Text = Note, fmt.Sprintf("of rdma-core %d, whose librxe loses completions of programs that call ibv_next_poll until ENOENT", releases[0])
		f.Remedy = fmt.Sprintf("rdma-core %d or newer for those programs (https://github.com/gorxe/gorxe/blob/main/docs/compatibility.md)", nextPollRepaired)
	default:
		f.Text = fmt.Sprintf("of rdma-core %d", releases[0])
	}
	return f
}

// librxe is the provider. libibverbs loads it by its name.
func (h *Host) librxe() Finding {
	if len(h.find("libibverbs/librxe-rdmav*.so")) > 0 {
		return Finding{Subject: "librxe", Text: "libibverbs has its provider for gorxe's devices"}
	}
	return Finding{"librxe", Warning, "libibverbs has no provider for gorxe's devices",
		"Debian, Ubuntu: apt install ibverbs-providers; Fedora: dnf install libibverbs"}
}

// libmlx5 is the provider of the devices of --like.
func (h *Host) libmlx5() Finding {
	if len(h.find("libibverbs/libmlx5-rdmav*.so")) > 0 {
		return Finding{Subject: "libmlx5", Text: "libibverbs has the provider for devices of --like"}
	}
	return Finding{"libmlx5", Note, "not found; programs with a device of gorxe run --like need it",
		"Debian, Ubuntu: apt install ibverbs-providers; Fedora: dnf install libibverbs"}
}

func (h *Host) librdmacm() Finding {
	if releases := h.releases("librdmacm.so.1.*.*.*"); len(releases) > 0 {
		return Finding{Subject: "librdmacm", Text: fmt.Sprintf("of rdma-core %d", releases[0])}
	}
	return Finding{"librdmacm", Note, "not found; programs that connect by address need it",
		"Debian, Ubuntu: apt install librdmacm1; Fedora: dnf install librdmacm"}
}

// releases returns the releases of rdma-core of the libraries that match, oldest first.
func (h *Host) releases(pattern string) (list []int) {
	for _, name := range h.find(pattern) {
		if n, ok := rdmaCore(name); ok {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}
