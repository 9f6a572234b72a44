package procfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCapabilities: /proc says what capget says of this process.
func TestCapabilities(t *testing.T) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	want := uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
	if got := Capabilities(os.Getpid()); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
	if got := Capabilities(-1); got != 0 {
		t.Errorf("no process has %#x", got)
	}
}
