package vfs

import (
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
)

// filePrefix begins the name of the memfd with the content of a file of the tree,
// whose path follows: so its status can be answered without a table. A program that
// makes such a memfd deceives itself.
const filePrefix = "gorxe-file:"

// maxMemfdName is how long a name may be (mm/memfd.c: MFD_NAME_MAX_LEN).
const maxMemfdName = 249

// MemfdName returns the name of the memfd with the content of a file.
func MemfdName(n *tree.Node) string {
	name := filePrefix + n.Path
	return name[:min(len(name), maxMemfdName)]
}

// NodeOf returns the file whose content is in a memfd, by what /proc/PID/fd shows of that;
// nil if it is none.
func NodeOf(t *tree.Tree, link string) *tree.Node {
	path, ours := strings.CutPrefix(link, "/memfd:"+filePrefix)
	if !ours {
		return nil
	}
	n, err := t.Lookup(strings.TrimSuffix(path, " (deleted)"), false)
	if err != nil || n == nil || n.Kind != tree.File {
		return nil
	}
	return n
}

// A LiveFile is an open file that says something new whenever it is read from the
// start, as all do in the kernel (fs/seq_file.c: seq_read_iter).
type LiveFile struct {
	Position
	content []byte // at the last read from the start; under mu
}

// Read is the content for a read from a position.
func (f *LiveFile) Read(n *tree.Node, at int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at == 0 || f.content == nil {
		content, err := n.Content()
		if err != nil {
			return nil, err
		}
		f.content = content
	}
	return f.content, nil
}
