package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// host is one host: a thread in a network namespace of its own, which starts the programs there.
type host struct {
	space *os.File
	calls chan func() // for the thread
}

// newHost makes a host. If it has a name, its programs see that as the name of their machine, and
// the file of names as their /etc/hosts.
func newHost(name, names string) (*host, error) {
	h := &host{calls: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := h.enter(name, names)
		made <- err
		if err == nil {
			for f := range h.calls {
				f()
			}
		}
	}()
	return h, <-made
}

// enter makes the namespaces of this thread. What it starts does not get the rights with which the
// hosts are made.
func (h *host) enter(name, names string) error {
	flags := unix.CLONE_NEWNET
	if name != "" {
		flags |= unix.CLONE_NEWUTS | unix.CLONE_NEWNS
	}
	if err := unix.Unshare(flags); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if name != "" {
		if err := introduce(name, names); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	var err error
	h.space, err = os.Open("/proc/thread-self/ns/net")
	return err
}

// introduce tells this thread's programs the name of their host, and those of the others.
func introduce(name, names string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	// What is mounted from here on is for this host only.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	if err := unix.Mount(names, "/etc/hosts", "", unix.MS_BIND, ""); err != nil && err != unix.ENOENT {
		return fmt.Errorf("mount /etc/hosts: %w", err)
	}
	return nil
}

// there calls f on the host's thread.
func (h *host) there(f func() error) error {
	result := make(chan error)
	h.calls <- func() { result <- f() }
	return <-result
}

// start starts a command on the host. It is killed when the host ends.
func (h *host) start(cmd *exec.Cmd) error {
	return h.there(func() error {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		return cmd.Start()
	})
}

// end ends the host's thread, and with it what the thread has started.
func (h *host) end() {
	close(h.calls)
	h.space.Close()
}

// joint is an interface that shall be up, with an address if it is valid.
type joint struct {
	name    string
	address netip.Prefix
}

// bringUp sets interfaces of the thread's namespace up.
func bringUp(joints []joint) error {
	h, err := netlink.NewHandle() // a socket of this namespace
	if err != nil {
		return err
	}
	defer h.Close()
	for _, j := range joints {
		if err := j.bringUp(h); err != nil {
			return fmt.Errorf("interface %s: %w", j.name, err)
		}
	}
	return nil
}

func (j *joint) bringUp(h *netlink.Handle) error {
	link, err := h.LinkByName(j.name)
	if err != nil {
		return err
	}
	if j.address.IsValid() {
		a, err := netlink.ParseAddr(j.address.String())
		if err != nil {
			return err
		}
		if err := h.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %v: %w", j.address, err)
		}
	}
	return h.LinkSetUp(link)
}

// errGone is the error of a host that does not exist.
var errGone = errors.New("the lab has no such host")
