package interop

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	update = flag.Bool("update", false, "write docs/interop.md")
	full   = os.Getenv("GORXE_INTEROP") == "full"
)

// insideEnv marks the process that runs in namespaces of its own.
const insideEnv = "GORXE_INTEROP_INSIDE"

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case os.Getenv("GORXE_INTEROP") == "":
		fmt.Println("interop: left out; `make interop` runs these tests")
		os.Exit(0)
	case os.Getenv(insideEnv) == "":
		os.Exit(inNamespaces())
	}
	os.Exit(run(m))
}

// inNamespaces runs this binary again in namespaces of its own: of the network,
// for the tap and UDP port 4791; of processes, so that nothing outlives the
// tests, whatever happens to them.
func inNamespaces() int {
	// The child is to die with this thread.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "interop: needs root, or user namespaces for an ordinary user: %v\n", err)
	return 1
}

// lab is what all cases use.
var lab *laboratory

func run(m *testing.M) int {
	code, err := func() (int, error) {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return 1, fmt.Errorf("private mounts: %w", err)
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return 1, fmt.Errorf("mount /proc: %w", err)
		}
		out, err := filepath.Abs("../../bin/interop")
		if err != nil {
			return 1, err
		}
		if lab, err = newLaboratory(out); err != nil {
			return 1, err
		}
		defer lab.close()
		code := m.Run()
		results.print(os.Stdout)
		if err := results.wireshark(out); err != nil {
			return 1, err
		}
		fmt.Printf("interop: captures and outputs are in %s\n", out)
		if *update {
			err = results.write("../../docs/interop.md")
		}
		return code, err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	return code
}
