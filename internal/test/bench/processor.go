package bench

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock is the clock of the processor time of a process: MAKE_PROCESS_CPUCLOCK of
// linux/posix-timers.h, with CPUCLOCK_SCHED.
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

// readClock reads a clock of clock_gettime(2).
func readClock(clock int32) (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(clock, &ts)
	return time.Duration(ts.Nano()), os.NewSyscallError("clock_gettime", err)
}

// processorTime is what the daemons of a place have used of the processors so far.
func (p *place) processorTime() (total time.Duration, err error) {
	seen := map[*daemon]bool{}
	for _, d := range []*daemon{p.server, p.client} {
		if seen[d] {
			continue
		}
		seen[d] = true
		spent, err := readClock(cpuClock(d.cmd.Process.Pid))
		if err != nil {
			return 0, fmt.Errorf("processor time of gorxe daemon: %w", err)
		}
		total += spent
	}
	return total, nil
}

// sample is one measurement: the figure of a row, and the processor time of the daemons from
// the start of the programs to their end.
type sample struct {
	figure    float64
	processor time.Duration
}

// perMessage is the processor time of one message, in µs. A measurement of few messages
// shows what starting and ending the programs takes.
func perMessage(few, many sample, nFew, nMany int) float64 {
	return float64(many.processor-few.processor) / 1e3 / float64(nMany-nFew)
}
