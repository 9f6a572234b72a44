package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what processes of gorxe take, without the programs. proc(5) has the sources.
type usage struct {
	processes   int
	memory      int64 // bytes that no other process shares
	threads     int
	descriptors int
	inotify     int // instances
	switches    int64
	processor   time.Duration
}

// usageOf adds up the processes of gorxe under pods.
func usageOf(pods []*pod) (u usage, err error) {
	children, err := processes()
	if err != nil {
		return u, err
	}
	for _, p := range pods {
		before := u.processes
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.cmd.Process.Pid))
		if err != nil {
			return u, err
		}
		todo := []int{p.cmd.Process.Pid}
		for len(todo) > 0 {
			pid := todo[0]
			todo = append(todo[1:], children[pid]...)
			if is, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || is != exe {
				continue // the program
			}
			if err := u.add(pid); err != nil {
				return u, err
			}
		}
		if found := u.processes - before; found != processesOfPod {
			return u, fmt.Errorf("a pod has %d processes of gorxe, and not %d: its program may have ended", found, processesOfPod)
		}
	}
	return u, nil
}

// processesOfPod: the front, the daemon and the keeper.
const processesOfPod = 3

// processes returns the children of each process.
func processes() (map[int][]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	children := map[int][]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		// The name is in parentheses, and may have any characters. The state and the parent follow
		// it.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		parent, err2 := strconv.Atoi(fields[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		children[parent] = append(children[parent], pid)
	}
	return children, err
}

// add adds a process.
func (u *usage) add(pid int) error {
	dir := fmt.Sprintf("/proc/%d", pid)
	u.processes++
	memory, err := numbers(dir+"/smaps_rollup", "Private_Clean", "Private_Dirty")
	if err != nil {
		return err
	}
	u.memory += memory << 10
	descriptors, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	u.descriptors += len(descriptors)
	for _, d := range descriptors {
		if to, _ := os.Readlink(filepath.Join(dir, "fd", d.Name())); to == "anon_inode:inotify" {
			u.inotify++
		}
	}
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return err
	}
	u.threads += len(tasks)
	for _, t := range tasks {
		task := filepath.Join(dir, "task", t.Name())
		switches, err := numbers(task+"/status", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
		if err != nil {
			return err
		}
		u.switches += switches
		// Its first number is the time on a processor, in nanoseconds.
		text, err := os.ReadFile(task + "/schedstat")
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return fmt.Errorf("%s/schedstat: %w", task, err)
		}
		u.processor += time.Duration(ns)
	}
	return nil
}

// numbers adds up the lines of a file that begin with these names and a colon.
func numbers(file string, names ...string) (sum int64, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		for _, n := range names {
			if n != name {
				continue
			}
			number, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			sum += number
			found++
		}
	}
	if found != len(names) {
		return 0, fmt.Errorf("%s has not all of %v", file, names)
	}
	return sum, nil
}
