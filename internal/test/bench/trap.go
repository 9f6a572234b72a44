package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TrapRole is the first argument of a program that must call TrapProgram.
const TrapRole = "trapped-call"

// TrapProgram runs under gorxe. For about the given time it makes the system call of
// ibv_post_send, for a queue pair that does not exist. The daemon reads the request and
// refuses it, so the call costs what a doorbell costs without its work. The program prints how
// many nanoseconds one call takes.
func TrapProgram(w io.Writer, span time.Duration) error {
	f, err := os.OpenFile("/dev/infiniband/uverbs0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct ib_uverbs_cmd_hdr and struct ib_uverbs_post_send, in words.
	const (
		postSend = 28
		wqeSize  = 128
		noQP     = 1<<32 - 1
	)
	var req [32]byte
	for i, word := range []uint32{postSend, 8 | 1<<16, 0, 0, noQP, 0, 0, wqeSize} {
		binary.NativeEndian.PutUint32(req[4*i:], word)
	}
	runtime.LockOSThread()
	const batch = 256
	fd, calls, start := f.Fd(), 0, time.Now()
	for time.Since(start) < span {
		for range batch {
			// Raw, to measure no more than the call: nothing else runs here.
			_, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&req[0])), uintptr(len(req)))
			if errno != unix.ENOENT && errno != unix.EINVAL { // Linux has had both
				return fmt.Errorf("a doorbell for no queue pair: %v, not ENOENT", errno)
			}
		}
		calls += batch
	}
	_, err = fmt.Fprintln(w, time.Since(start).Nanoseconds()/int64(calls))
	return err
}

// trap measures a trapped call, in µs.
func (p *place) trap(ctx context.Context, cfg Config) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, pairLimit)
	defer cancel()
	t, err := launch(ctx, p.server, append(append([]string{}, cfg.Self...), TrapRole, cfg.Target.String())...)
	if err != nil {
		return 0, err
	}
	if err := t.wait(); err != nil {
		return 0, err
	}
	ns, err := strconv.ParseFloat(strings.TrimSpace(t.out.String()), 64)
	return ns / 1e3, err
}
