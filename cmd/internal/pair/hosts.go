package pair

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The addresses of the two hosts: TEST-NET-1 of RFC 5737.
var (
	ServerAddress = netip.MustParsePrefix("192.0.2.1/24")
	ClientAddress = netip.MustParsePrefix("192.0.2.2/24")
)

// InNamespaces runs this program again in a network namespace of its own, where it may
// make another one. A user namespace gives an ordinary user the right to do so. It
// returns the exit code.
func InNamespaces(args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return failed, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Geteuid(); uid != 0 {
		gid := os.Getegid()
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	}
	cmd.SysProcAttr = attr
	// The kernel sends the death signal when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it, nothing is known
	return failed, fmt.Errorf("--hosts needs network namespaces: %w: %s", err, allow(string(mounts)))
}

// allow says what lets a user make a user namespace. The kernel refuses that in a chroot
// (unshare(2)), whose root is no mount point unless someone has mounted it.
func allow(mountinfo string) string {
	root := mountinfo == ""
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		root = root || len(f) > 4 && f[4] == "/"
	}
	if !root {
		return "this is a chroot, where only root may: run as root"
	}
	return "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
}

// hosts are two network namespaces with a link between them. The server is in that of
// this process.
type hosts struct {
	runFlags []string
	client   *os.File // its namespace
	dir      string   // for the sockets of the two daemons
}

func newHosts(flags []string) (h *hosts, err error) {
	h = &hosts{runFlags: flags}
	if h.dir, err = os.MkdirTemp("", "gorxe-pair-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.close()
			err = fmt.Errorf("--hosts: %w", err)
		}
	}()
	// A thread makes the namespace of the client. It does not return, and ends with its
	// goroutine.
	made := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			h.client, err = os.Open("/proc/thread-self/ns/net")
		}
		if err == nil {
			err = bringUp("lo", netip.Prefix{})
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	link := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerNamespace: netlink.NsFd(int(h.client.Fd()))}
	link.Name, link.MTU = "eth0", 1500
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("a veth between the hosts: %w", err)
	}
	if err := errors.Join(bringUp("lo", netip.Prefix{}), bringUp("eth0", ServerAddress)); err != nil {
		return nil, err
	}
	return h, h.there(func() error { return bringUp("eth0", ClientAddress) })
}

// bringUp sets an interface of the thread's namespace up, with an address if it is valid.
func bringUp(name string, addr netip.Prefix) error {
	h, err := netlink.NewHandle() // a socket of this namespace
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if addr.IsValid() {
		a, err := netlink.ParseAddr(addr.String())
		if err != nil {
			return err
		}
		if err := h.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %v: %w", addr, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}

// there calls f on a thread in the client's namespace.
func (h *hosts) there(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Setns(int(h.client.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// start implements launcher. The programs do not get the rights with which the hosts were
// made.
func (h *hosts) start(end string, cmd *exec.Cmd) error {
	begin := func() error {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return err
		}
		return cmd.Start()
	}
	if end == "client" {
		return h.there(begin)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- begin()
	}()
	return <-result
}

// flags implements launcher. Each host has a daemon of its own.
func (h *hosts) flags(end string) []string {
	flags := []string{"--socket", h.sockets(end)[0], "--device", "rxe0=eth0"}
	return slices.Concat(flags, h.runFlags)
}

// sockets implements launcher.
func (h *hosts) sockets(end string) []string { return []string{filepath.Join(h.dir, end+".sock")} }

func (h *hosts) close() {
	if h.client != nil {
		h.client.Close()
	}
	os.RemoveAll(h.dir) //nolint:errcheck // a directory in /tmp
}
