package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tree is a process and its living descendants.
func tree(root int) []int {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The name in parentheses may hold anything.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(f[1])
		children[parent] = append(children[parent], pid)
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// runs reports whether a process exists and has not ended. An orphan may be reaped late.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

func (p *proc) killTree() {
	for _, pid := range tree(p.cmd.Process.Pid) {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
	}
	<-p.done
}

// describe reports the state of a program for a failed test: its output, where each thread of
// its descendants is, and what the goroutines of gorxe do. It ends gorxe.
func (p *proc) describe() string {
	var b strings.Builder
	var own []int
	if !p.ended() {
		for _, pid := range tree(p.cmd.Process.Pid) {
			describeProcess(&b, pid)
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe == gorxe {
				own = append(own, pid)
			}
		}
		for _, pid := range own {
			syscall.Kill(pid, syscall.SIGABRT) //nolint:errcheck // it may have ended
		}
		if len(own) > 0 {
			select {
			case <-p.done:
			case <-time.After(5 * time.Second):
			}
		}
	}
	fmt.Fprintf(&b, "output of %s:\n%s", p.name, p.out.String())
	return b.String()
}

func describeProcess(b *strings.Builder, pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	cmdline, err := os.ReadFile(dir + "cmdline")
	if err != nil {
		return
	}
	fmt.Fprintf(b, "process %d: %s\n", pid, strings.ReplaceAll(string(cmdline), "\x00", " "))
	tasks, _ := filepath.Glob(dir + "task/*")
	for _, task := range tasks {
		name, _ := os.ReadFile(task + "/comm")
		call, _ := os.ReadFile(task + "/syscall")
		wchan, _ := os.ReadFile(task + "/wchan")
		fmt.Fprintf(b, "  thread %s %s: in %s, call %s\n", filepath.Base(task),
			strings.TrimSpace(string(name)), wchan, strings.TrimSpace(string(call)))
	}
}
