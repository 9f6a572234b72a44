package trap

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"golang.org/x/sys/unix"
)

// What a program can have open of the tree's files is bounded. Files that are the same share
// memory, and the budget bears those that find no room.
func TestOpenFiles(t *testing.T) {
	budget := quota.New(quota.Cost{Memory: processCost.Memory + 2*objectCost.Memory})
	run(t, options{program: "opens", budget: budget})
}

// opens opens one file often, and then more files than there is room for.
func opens([]string) error {
	const dir = "/sys/class/infiniband/rxe0"
	var c checks
	inodes := make(map[uint64]bool)
	for range 300 {
		f, err := os.Open(filepath.Join(dir, "node_type"))
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		c.eq("content", string(text), "1: CA\n")
		c.eq("read", err, nil)
		var st unix.Stat_t // not fstat, which is answered for the node
		c.eq("stat", unix.Stat(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), &st), nil)
		inodes[st.Ino] = true
	}
	c.eq("memfds of one file", len(inodes), 1)

	for i := range ownRoom - 1 {
		f, err := os.Open(fmt.Sprintf("%s/ports/1/gids/%d", dir, i))
		if err != nil {
			return err
		}
		defer f.Close()
	}
	for _, name := range []string{"node_guid", "sys_image_guid"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		for range 2 {
			text, err := io.ReadAll(f)
			c.eq(name, len(text), len("0200:0000:0000:0001\n"))
			c.eq("read", err, nil)
			_, err = f.Seek(0, io.SeekStart)
			c.eq("lseek", err, nil)
		}
	}
	_, err := unix.Open(filepath.Join(dir, "fw_ver"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	c.eq("a file beyond the budget", err, unix.ENOMEM)
	return c.err()
}
