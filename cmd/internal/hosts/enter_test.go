package hosts

import (
	"strings"
	"testing"
)

// TestAllow: a chroot is told by its root, which is not a mount point.
func TestAllow(t *testing.T) {
	const proc = "52 50 0:22 / /proc rw,relatime shared:9 - proc proc rw\n"
	const root = "50 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	for mounts, chroot := range map[string]bool{"": false, root + proc: false, proc: true} {
		if got := allow(mounts); strings.Contains(got, "chroot") != chroot || !strings.Contains(got, "run as root") {
			t.Errorf("%q: %s", mounts, got)
		}
	}
}
