// Command guest is the first process of the tests' virtual machine: it loads
// modules, puts the host's file system under a writable overlay, and runs what
// the host asks for. It comes in an initramfs and is never installed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: only for a virtual machine's first process")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) //nolint:errcheck // the kernel panics then, and qemu ends as well
}

func run() error {
	for _, m := range []mount{
		{"proc", "proc", "/proc", ""}, {"sysfs", "sys", "/sys", ""}, {"devtmpfs", "dev", "/dev", ""},
	} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := loadModules("/modules"); err != nil {
		return err
	}
	port, err := openPort("agent")
	if err != nil {
		return err
	}
	if err := enterHost(); err != nil {
		return err
	}
	if err := environment(); err != nil {
		return err
	}
	fmt.Println("guest: ready")
	return agent.Serve(port)
}

type mount struct{ fs, source, target, options string }

func (m mount) mount() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.fs, 0, m.options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.fs, m.target, err)
	}
	return nil
}

// loadModules loads all in the order of their names, which the host chose.
func loadModules(dir string) error {
	files, err := filepath.Glob(dir + "/*.ko")
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		// Modules for processor features that this machine lacks say so.
		if err != nil && err != unix.EEXIST && err != unix.ENODEV {
			return fmt.Errorf("module %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// openPort opens the virtual serial port of that name, which appears some time
// after its driver.
func openPort(name string) (*os.File, error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			text, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(text)) != name {
				continue
			}
			fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(file)), unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), name), nil
		}
	}
	return nil, fmt.Errorf("there is no virtual serial port %q", name)
}

// enterHost makes the host's file system the root, with changes kept in memory.
func enterHost() error {
	for _, m := range []mount{
		{"9p", "hostroot", "/host", "trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose"},
		{"tmpfs", "rw", "/rw", "size=1g"},
	} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/rw/upper", "/rw/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, m := range []mount{
		{"overlay", "overlay", "/new", "lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work"},
		{"proc", "proc", "/new/proc", ""}, {"sysfs", "sys", "/new/sys", ""}, {"devtmpfs", "dev", "/new/dev", ""},
		{"devpts", "pts", "/new/dev/pts", ""}, {"tmpfs", "shm", "/new/dev/shm", ""}, {"tmpfs", "run", "/new/run", ""},
	} {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := unix.Chroot("/new"); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

func environment() error {
	for name, value := range map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	// Queues and memory regions are locked memory.
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited)
}
