package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/udpbaseline"
)

// The daemons move messages by system calls. Each of them is measured by itself, with nothing
// around it. Together they are the least that a message takes.
//
// One daemon copies a message from the memory of one program, and to that of the other one. Two
// daemons do that as well, and send the message by UDP in between. Long messages are compared by
// processor time, and latencies by the time of a doorbell (doorbell.go) and of datagrams.

// MemoryRole is the first argument of a program that must call MemoryProgram.
const MemoryRole = "memory"

// callBytes is how much one system call moves here. The daemons move as much, or less.
const callBytes = 64 << 10

// copied is the baseline of all copies, and moved that of UDP for a row of two daemons. Both are
// for callBytes.
var copied = baseline{place: OneDaemon, kind: Processor}

func (r Row) moved() baseline {
	return baseline{place: TwoDaemons, kind: Processor, segment: r.MTU + packetOverhead}
}

// part is a baseline that a message takes so many times.
type part struct {
	of    baseline
	times float64
}

// leasts are the parts of what a message takes at least. Rates of small messages have none, because
// one system call serves many of them. READs and atomics have no doorbell: as only one program
// polls, a thread may take what it rings for without a wake-up.
func (r Row) leasts() (parts []part) {
	calls := float64(r.Size) / callBytes
	switch {
	case r.Kind == Bandwidth && r.Place == TwoDaemons:
		return []part{{copied, calls}, {r.moved(), calls}}
	case r.Kind == Bandwidth:
		return []part{{copied, calls}}
	case r.Kind != Latency:
		return nil
	case r.oneProgramPolls():
		parts = []part{{accessed, 1}}
		if r.Tool == atomicLat {
			parts[0].times = 1.5
		}
		if r.Place == TwoDaemons {
			parts = append(parts, part{r.udp(), 2}) // there and back
		}
		return parts
	case r.Place == TwoDaemons:
		return []part{{rung, 1}, {r.udp(), 1}}
	default:
		return []part{{rung, 1}}
	}
}

// MemoryProgram has memory for other processes to read and write. It prints the address, and
// returns when in ends.
func MemoryProgram(out io.Writer, in io.Reader) error {
	mem, err := memory()
	if err != nil {
		return err
	}
	defer unix.Munmap(mem) //nolint:errcheck // the program ends
	if _, err := fmt.Fprintln(out, uint64(uintptr(unsafe.Pointer(&mem[0])))); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// memory returns callBytes that have pages.
func memory() ([]byte, error) {
	return unix.Mmap(-1, 0, callBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE|unix.MAP_POPULATE)
}

// holder is a running program with a role, which has printed an address of its memory.
type holder struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr uintptr
}

// hold starts a program, which inherits files.
func hold(ctx context.Context, cfg Config, files []*os.File, role ...string) (h *holder, err error) {
	h = &holder{cmd: exec.CommandContext(ctx, cfg.Self[0], slices.Concat(cfg.Self[1:], role)...)}
	h.cmd.ExtraFiles = files
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	addr, err := h.number()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", h.cmd, err), h.close())
	}
	h.addr = uintptr(addr)
	return h, nil
}

// number reads a line that the program prints.
func (h *holder) number() (uint64, error) {
	line, err := h.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(line), 10, 64)
}

// close ends the program.
func (h *holder) close() error {
	_ = h.in.Close()
	return h.cmd.Wait()
}

// holdTwo starts two programs of MemoryRole, which end ends.
func holdTwo(ctx context.Context, cfg Config) (from, to *holder, end func(), err error) {
	if from, err = hold(ctx, cfg, nil, MemoryRole); err != nil {
		return nil, nil, nil, err
	}
	if to, err = hold(ctx, cfg, nil, MemoryRole); err != nil {
		return nil, nil, nil, errors.Join(err, from.close())
	}
	return from, to, func() { _ = errors.Join(from.close(), to.close()) }, nil
}

// copies returns how long it takes to copy callBytes from one process to another one, by way of
// this one, in µs.
func copies(ctx context.Context, cfg Config) (float64, error) {
	from, to, end, err := holdTwo(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer end()
	mem, err := memory()
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(mem) //nolint:errcheck // scratch
	local := []unix.Iovec{{Base: &mem[0]}}
	local[0].SetLen(len(mem))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return processorFor(cfg.Target, unix.CLOCK_THREAD_CPUTIME_ID, func() (int64, error) {
		n, err := unix.ProcessVMReadv(from.cmd.Process.Pid, local, []unix.RemoteIovec{{Base: from.addr, Len: len(mem)}}, 0)
		if err := whole("process_vm_readv", n, err); err != nil {
			return 0, err
		}
		n, err = unix.ProcessVMWritev(to.cmd.Process.Pid, local, []unix.RemoteIovec{{Base: to.addr, Len: len(mem)}}, 0)
		return 1, whole("process_vm_writev", n, err)
	})
}

// whole returns an error unless a call moved callBytes.
func whole(call string, n int, err error) error {
	if err == nil && n != callBytes {
		err = fmt.Errorf("%d of %d bytes", n, callBytes)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// moves returns how much processor time UDP takes for callBytes, in µs.
func (b baseline) moves(cfg Config, p *place) (float64, error) {
	pair, err := udpbaseline.Between(b.segment, p.from, p.to)
	if err != nil {
		return 0, err
	}
	defer pair.Close()
	chunk := int64(256 * pair.Message())
	us, err := processorFor(cfg.Target, unix.CLOCK_PROCESS_CPUTIME_ID, func() (int64, error) { return chunk, pair.Transfer(chunk) })
	return us * callBytes, err
}

// processorFor repeats do until span is over. It returns the processor time in µs, on a clock of
// this process or thread, of one of the things whose number do returns.
func processorFor(span time.Duration, clock int32, do func() (int64, error)) (float64, error) {
	before, err := readClock(clock)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for start := time.Now(); total == 0 || time.Since(start) < span; {
		n, err := do()
		if err != nil {
			return 0, err
		}
		total += n
	}
	after, err := readClock(clock)
	return float64((after - before).Nanoseconds()) / 1e3 / float64(total), err
}
