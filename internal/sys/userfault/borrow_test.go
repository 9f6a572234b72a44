package userfault

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
)

// roleEnv makes the test's binary a program that execs.
const roleEnv = "GORXE_USERFAULT_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		execs()
		return
	}
	os.Exit(m.Run())
}

// beside calls a function on a thread that is not the first one.
func beside(f func()) { onThread(f) }

// execs prints the number of a thread, and execs in another one when its input ends. The first
// thread does neither.
func execs() {
	runtime.LockOSThread()
	beside(func() {
		fmt.Println(unix.Gettid())
		select {}
	})
	beside(func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Println(unix.Exec("/proc/self/exe", []string{"ended"}, nil))
	})
	select {}
}

// TestBorrowBesideExec: a program calls with one thread, and execs with another one. That waits for
// the end of a third one, which a debugger has and does not let go. Borrow does not wait for that.
func TestBorrowBesideExec(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=execs")
	in := must.Get[interface{ Close() error }](t)(cmd.StdinPipe())
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	var third int
	if _, err := fmt.Fscan(out, &third); err != nil {
		t.Fatal(err)
	}
	seized, release := make(chan error), make(chan struct{})
	onThread(func() {
		seized <- unix.PtraceSeize(third)
		<-release
		_, _ = unix.Wait4(third, nil, unix.WALL, nil) // it has ended
	})
	must.OK(t, <-seized)
	must.OK(t, in.Close())
	pid := cmd.Process.Pid
	must.Eventually(t, "the first thread has ended", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return strings.Contains(string(text), "State:\tZ")
	})
	pidfd := must.Get[int](t)(unix.PidfdOpen(pid, 0))
	defer unix.Close(pidfd) //nolint:errcheck // it has nothing to write
	got, returned := make(chan error, 1), make(chan struct{})
	go func() {
		Borrow(pid, pidfd, func() bool { return true }, func(_ int, err error) { got <- err })
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(10 * time.Second):
		t.Error("Borrow waits for the program")
	}
	if len(got) > 0 {
		t.Errorf("the program could be seized: %v", <-got)
	}
	close(release)
	if err := <-got; err == nil {
		t.Error("a program that has executed another one has lent its faults")
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

// TestOnThread: the first thread of the process, which would not end, is left alone.
func TestOnThread(t *testing.T) {
	const many = 100 // more than there are threads
	var all sync.WaitGroup
	end := make(chan struct{})
	tids := make(chan int, many)
	for range many {
		all.Add(1)
		onThread(func() {
			defer all.Done()
			tids <- unix.Gettid()
			<-end
		})
	}
	seen := make(map[int]bool)
	for range many {
		tid := <-tids
		if tid == unix.Getpid() || seen[tid] {
			t.Errorf("thread %d of process %d", tid, unix.Getpid())
		}
		seen[tid] = true
	}
	close(end)
	all.Wait()
	for tid := range seen {
		must.Eventually(t, "the threads have ended", func() bool { return unix.Tgkill(unix.Getpid(), tid, 0) == unix.ESRCH })
	}
}
