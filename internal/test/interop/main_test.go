package interop

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	update   = flag.Bool("update", false, "write the tables of all cases, testdata/pcaps/interop*.md")
	captures = flag.Bool("captures", false, "write the curated captures into testdata/pcaps")
	full     = os.Getenv("GORXE_INTEROP") == "full"
)

// insideEnv marks the process that runs in its own namespaces. Its value is the suite and
// the directory of the kernel.
const insideEnv = "GORXE_INTEROP_INSIDE"

// outDir is where the cases leave packets and outputs.
var outDir = cmp.Or(os.Getenv("GORXE_INTEROP_OUT"), "../../../bin/interop")

func TestMain(m *testing.M) {
	flag.Parse()
	if k, inside := os.LookupEnv(insideEnv); inside {
		suite, dir, _ := strings.Cut(k, "=")
		os.Exit(run(m, kernel{suite: suite, dir: dir}))
	}
	if os.Getenv("GORXE_INTEROP") == "" {
		fmt.Println("interop: left out; `make interop` runs these tests")
		os.Exit(0)
	}
	code := 0
	for _, suite := range suites() {
		dir, err := download(suite)
		if err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			os.Exit(1)
		}
		code = max(code, inNamespaces(suite+"="+dir))
	}
	if *update {
		if err := writePages("../../../testdata/pcaps"); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// suites returns the Debian suites whose kernels the tests run against.
func suites() []string {
	if list := os.Getenv("GORXE_INTEROP_KERNELS"); list != "" {
		return strings.Fields(list)
	}
	if full {
		return []string{"bookworm", "bookworm-backports", "trixie-backports"}
	}
	return []string{"bookworm"}
}

// inNamespaces runs this binary again in its own namespaces. The network namespace is for
// the tap and UDP port 4791. The process namespace ends all processes with the tests.
func inNamespaces(kernel string) int {
	// The child must die with this thread.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+kernel)
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

func run(m *testing.M, k kernel) int {
	code, err := func() (int, error) {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return 1, fmt.Errorf("private mounts: %w", err)
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return 1, fmt.Errorf("mount /proc: %w", err)
		}
		dir := k.suite
		if kernels {
			dir = filepath.Join("kernels", k.suite) // not for the page
		}
		out, err := filepath.Abs(filepath.Join(outDir, dir))
		if err != nil {
			return 1, err
		}
		earlier, err := load(out)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 1, err
		}
		if lab, err = newLaboratory(out, k); err != nil {
			return 1, err
		}
		defer lab.close()
		code := m.Run()
		results.print(os.Stdout)
		malformed := lab.reader.finish()
		if malformed == nil {
			results.read()
		}
		fmt.Printf("interop: captures and outputs are in %s\n", out)
		if *captures {
			if err := writeCurated("../../../testdata/pcaps"); err != nil {
				return 1, err
			}
		}
		return code, errors.Join(malformed, results.save(out, &earlier))
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	return code
}
