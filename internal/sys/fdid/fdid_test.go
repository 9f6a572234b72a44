package fdid_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Duplicates of a descriptor have one ID, and two pipes have different ones.
func TestOf(t *testing.T) {
	var ids [3]fdid.ID
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dup, err := unix.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dup)
	other, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer w2.Close()
	for i, fd := range []int{int(r.Fd()), dup, int(other.Fd())} {
		if ids[i], err = fdid.Of(fd); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] != ids[1] || ids[0] == ids[2] || ids[0] == (fdid.ID{}) {
		t.Errorf("IDs %v: the first two are one pipe, the third is another", ids)
	}
	r.Close()
	if _, err := fdid.Of(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("a descriptor that is not open: %v", err)
	}
}
