package mlx5

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
)

// processEnv makes the test binary a process, which has a page of registers at this offset of its
// descriptor 3.
const processEnv = "GORXE_MLX5_PROCESS"

func init() {
	if at := os.Getenv(processEnv); at != "" {
		if err := storeWhenTold(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// process is a program that stores to a register: the goroutines of a test must not wait in a page
// fault, for which Go's runtime would wait, too.
type process struct {
	t     testing.TB
	pid   int
	fault int // its userfaultfd
	mem   simnet.Memory
	in    io.Writer
	out   *bufio.Reader
}

func newProcess(t testing.TB, file int, offset int64) *process {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), processEnv+"="+strconv.FormatInt(offset, 10))
	cmd.Stderr = os.Stderr
	fd := must.Get[int](t)(unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0))
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "registers")}
	in := must.Get[io.WriteCloser](t)(cmd.StdinPipe())
	out := must.Get[io.ReadCloser](t)(cmd.StdoutPipe())
	must.OK(t, cmd.Start())
	must.OK(t, cmd.ExtraFiles[0].Close())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	p := &process{t: t, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	if _, err := fmt.Fscanln(p.out, &p.fault); err != nil {
		t.Fatal("the process: ", err)
	}
	return p
}

// lend returns its userfaultfd, which it closes: the file ends with the descriptor of the test.
func (p *process) lend() (int, error) {
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, p.fault, 0)
	p.store() // the first line has it close the file
	p.await()
	return fd, err
}

// space stands for its address space.
func (p *process) space() rxe.Memory { return &p.mem }

func (p *process) maps() string {
	return string(must.Get[[]byte](p.t)(os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))))
}

// store has it store to the register, which waits, and await waits for the end of that.
func (p *process) store() { must.Get[int](p.t)(fmt.Fprintln(p.in)) }
func (p *process) await() {
	p.t.Helper()
	must.Get[string](p.t)(p.out.ReadString('\n'))
}

// clock has it read the clock.
func (p *process) clock() (now uint64) {
	p.t.Helper()
	must.Get[int](p.t)(fmt.Fprintln(p.in, "clock"))
	must.Get[int](p.t)(fmt.Fscanln(p.out, &now))
	return now
}

// storeWhenTold is the process.
func storeWhenTold(at string) error {
	offset, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(3, offset, provider.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	time, err := unix.Mmap(3, mmapCoreClock<<mmapShift*provider.PageSize, provider.PageSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	const userModeOnly = 1
	fault, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|userModeOnly, 0, 0)
	if errno != 0 {
		return errno
	}
	fmt.Println(fault)
	for in, first := bufio.NewReader(os.Stdin), true; ; {
		line, err := in.ReadString('\n')
		switch {
		case err != nil:
			return nil
		case first:
			first = false
			if err := unix.Close(int(fault)); err != nil {
				return err
			}
		case line == "clock\n":
			fmt.Println(binary.BigEndian.Uint64(time[coreClockAt:]))
			continue
		default:
			atomic.StoreUint64((*uint64)(unsafe.Pointer(&page[registersAt])), 1<<63|5)
		}
		fmt.Println("stored")
	}
}
