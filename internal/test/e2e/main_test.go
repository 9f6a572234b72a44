package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// roleEnv makes the test binary play a part of a test instead: it is then run by
// the test, under gorxe.
const roleEnv = "GORXE_E2E_ROLE"

// repository is where its root is, from here.
const repository = "../../.."

// usernsEnv marks the second run of the binary, in a user namespace of its own.
const usernsEnv = "GORXE_E2E_USERNS"

// binaryEnv has the path of the command if it is compiled already (TestDirect).
const binaryEnv = "GORXE_E2E_BINARY"

// oneUser: the test has no other users than its own to run programs as.
var oneUser = os.Getenv(usernsEnv) != ""

// The program under test, and how much of it the tests cover.
var (
	gorxe   string // path of the binary; empty in native mode
	scratch string // of this run; removed at its end
	native  = os.Getenv("GORXE_E2E_NATIVE")
	full    = os.Getenv("GORXE_E2E") == "full"
	kills   = count("GORXE_KILLS", 20)
	// doorbells is the daemons' flag of that name. What is expected of errno needs
	// trapped ones; directTests says what is tested with others, too.
	doorbells    = cmp.Or(os.Getenv("GORXE_E2E_DOORBELLS"), "trapped")
	programLimit = 90 * time.Second // after which a program counts as hanging
)

func count(env string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil && n > 0 {
		return n
	}
	return standard
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	if os.Geteuid() != 0 {
		os.Exit(asRootOfNamespace())
	}
	moreAtOnce()
	os.Exit(run(m))
}

// moreAtOnce lets one test more run at once than there are processors (besideOthers), because
// programs mostly wait.
func moreAtOnce() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(runtime.NumCPU()+1)) //nolint:errcheck // it is a number
	}
}

// asRootOfNamespace runs this binary again in a user namespace, where an ordinary
// user may make network namespaces.
func asRootOfNamespace() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), usernsEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "e2e: needs root, or user namespaces for an ordinary user: %v\n", err)
	return 1
}

func run(m *testing.M) int {
	var err error
	scratch, err = os.MkdirTemp("", "gorxe-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // in the temporary directory
	// Programs of other users live here as well.
	if err := os.Chmod(scratch, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	if gorxe = os.Getenv(binaryEnv); gorxe == "" && native == "" {
		if gorxe, err = build(scratch); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
	}
	code := m.Run()
	fmt.Println(selection.report())
	return code
}

// build compiles the command, with the race detector if this test has it.
func build(dir string, flags ...string) (string, error) {
	path := filepath.Join(dir, "gorxe")
	args := append([]string{"build", "-o", path}, flags...)
	if race.Enabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/gorxe/gorxe/cmd/gorxe")...)
	if !race.Enabled {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build cmd/gorxe: %v\n%s", err, out)
	}
	return path, nil
}

// need fails in CI, where every tool must be there, and skips elsewhere.
func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		testenv.Missing(t, "%s is not installed: run scripts/setup.sh", tool)
	}
}
