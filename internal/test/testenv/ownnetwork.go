package testenv

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// ownNetworkEnv names the test that runs in a network namespace of its own.
const ownNetworkEnv = "GORXE_TEST_OWN_NETWORK"

// OwnNetwork runs the calling test again, alone, in a process with a network namespace of its
// own, and returns false. In that process it returns true, and the loopback interface is up. A
// test needs this if it changes interfaces, or if it uses an address that another gorxe may
// have: ::1 is the only IPv6 address of the loopback interface. A user who may not make
// a network namespace skips the test, except in CI.
func OwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetworkEnv) != "" {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	cmd := exec.Command("/proc/self/exe", "-test.run="+pattern, "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), ownNetworkEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		Missing(t, "cannot make a network namespace (needs root or user namespaces): %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("in the network namespace: %v\n%s", err, out)
	}
	return false
}
