package trap

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// manyMaps is how many mappings manyMapsProgram makes, each with a path of 4 KB.
const manyMaps = 4000

// TestMapsBounded: a program with an endless list of mappings takes no memory of the daemon.
func TestMapsBounded(t *testing.T) {
	const most = 128 << 10
	dir := t.TempDir()
	var allocated uint64
	var list string
	h := newFakes(t)
	h.write = func(c kernel.Caller, _, n uint64) (int64, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list = c.(kernel.Standing).Maps(most)
		runtime.ReadMemStats(&after)
		allocated = after.TotalAlloc - before.TotalAlloc
		return int64(n), nil
	}
	run(t, options{program: "maps", host: h, patient: true}, dir)
	if list != "" || allocated > 4*most {
		t.Errorf("the list has %d bytes, for which %d were allocated", len(list), allocated)
	}
}

func manyMapsProgram(args []string) error {
	dir := args[0]
	for range 15 { // a path of at most PATH_MAX
		dir = filepath.Join(dir, strings.Repeat("x", 250))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	page := os.Getpagesize()
	if err := f.Truncate(int64(page)); err != nil {
		return err
	}
	for i := range manyMaps { // neighbors differ, or they would be one
		if _, err := unix.Mmap(int(f.Fd()), 0, page, unix.PROT_READ*(i%2), unix.MAP_SHARED); err != nil {
			return err
		}
	}
	fd, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, make([]byte, 8)); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err == nil && len(text) < 1<<20 {
		err = fmt.Errorf("the list has %d bytes", len(text))
	}
	return err
}
