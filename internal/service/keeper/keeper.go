package keeper

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// keeper is the state of the keeper process.
type keeper struct {
	plan   plan
	front  *proto.Conn
	daemon *proto.Client
	canary *canary

	program  int // process
	pidfd    int // of it
	listener *os.File
	calls    *os.File // that the daemon has in hand
	fds      filter.Range
	detached chan struct{} // closed when the daemon has released all objects of the program

	mu  sync.Mutex // below, and the canary
	job job
}

// keep runs the keeper from its start to its end.
func keep(p plan) error {
	k := &keeper{plan: p, detached: make(chan struct{})}
	err := k.start()
	var died *diedError
	if errors.As(err, &died) {
		k.tell(report{Ended: true, Status: uint32(died.status)})
		return nil
	}
	if err != nil {
		if k.front != nil {
			k.tell(report{Error: err.Error()})
		}
		return err
	}
	k.tell(report{Started: k.program})
	go k.listen()
	go k.look()
	go k.attend()
	return k.wait()
}

// tell reports to the front. If the front is gone, the report is lost.
func (k *keeper) tell(r report) {
	k.front.Send(r) //nolint:errcheck // as above
}

// start starts the program.
func (k *keeper) start() error {
	var err error
	// This comes first, because until then signals for the group end this process.
	if k.canary, err = newCanary(); err != nil {
		return err
	}
	if k.front, err = proto.NewConn(os.NewFile(uintptr(k.plan.front), "socket of the front")); err != nil {
		return err
	}
	if k.daemon, err = proto.Inherit(os.NewFile(uintptr(k.plan.daemon), "socket of the daemon")); err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	child, err := k.spawn()
	if err != nil {
		return err
	}
	defer child.Close()
	// An error from here on ends the child too, because its socket closes.
	if err := k.release(); err != nil {
		return err
	}
	if err := k.takeListener(child); err != nil {
		return err
	}
	k.calls, err = k.daemon.Attach(proto.Attachment{
		Listener: k.listener, FDs: k.fds,
		Program: k.program, NoAccess: procmem.CheckAccess(k.program),
	})
	if err != nil {
		return err
	}
	return child.Send(proceed{})
}

// spawn starts the child and returns the socket to it.
func (k *keeper) spawn() (*proto.Conn, error) {
	var err error
	if k.fds, err = filter.Own(); err != nil {
		return nil, err
	}
	ours, theirs, err := proto.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := proto.NewConn(ours)
	if err != nil {
		return nil, err
	}
	fd, err := passOn(theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer unix.Close(fd)
	argv := k.plan.childArgs(fd, k.fds)
	k.program, err = syscall.ForkExec(self, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{PidFD: &k.pidfd},
	})
	if err == nil && k.pidfd < 0 {
		err = unix.ENOSYS // a kernel before 5.4
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("starting the program's process: %w", err)
	}
	return conn, nil
}

// release gives up what the program has by now: its descriptors, and the directory. The
// user may want to unmount that file system.
func (k *keeper) release() error {
	fds, err := inherited()
	if err != nil {
		return err
	}
	if err := letGo(fds, 0, 1, 2); err != nil {
		return err
	}
	return os.Chdir("/")
}

// takeListener receives the listener that the child has installed.
func (k *keeper) takeListener(child *proto.Conn) error {
	var in installed
	fds, err := child.Recv(&in)
	if err != nil {
		return k.died(err)
	}
	if in.Error != "" {
		return errors.New(in.Error)
	}
	if len(fds) != 1 {
		return errors.New("the program's process sent no listener")
	}
	k.listener = os.NewFile(uintptr(fds[0]), "listener")
	if !in.Killable {
		k.tell(report{Say: "this kernel (before 5.19) lets signals interrupt RDMA calls: programs with frequent signals may fail"})
	}
	return nil
}

// diedError: a signal ended the child before it became the program. The signal was meant for
// the program, for example Ctrl-C.
type diedError struct{ status unix.WaitStatus }

func (e *diedError) Error() string {
	return "the program's process was ended by " + e.status.Signal().String()
}

// died returns why the child closed its socket.
func (k *keeper) died(cause error) error {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(k.program, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	if ws.Signaled() {
		return &diedError{ws}
	}
	return fmt.Errorf("the program's process ended before it ran the program (exit code %d): %w", ws.ExitStatus(), cause)
}

// listen receives notices from the front until the front ends.
func (k *keeper) listen() {
	for {
		var n notice
		if err := k.front.RecvOnly(&n); err != nil {
			// The front was killed (SIGKILL), and the user meant the program. If the
			// program has ended, the signal has no effect.
			_ = unix.PidfdSendSignal(k.pidfd, unix.SIGKILL, nil, 0)
			return
		}
		k.noticed(n)
	}
}

// look makes the canary see signals as soon as they come. Signals that wait longer may merge.
func (k *keeper) look() {
	wake := make(chan struct{})
	go k.canary.in.watch(wake)
	for range wake {
		k.mu.Lock()
		k.canary.look()
		k.mu.Unlock()
	}
}

// noticed passes signals of the front to the program, unless the program got them too.
func (k *keeper) noticed(n notice) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.canary.hear(n.Heard)
	continued := k.resumed(n.Resumed)
	for _, a := range n.Signals {
		switch {
		case a.Signal == unix.SIGCONT && int(a.PID) == os.Getpid():
			// See wake.
		case k.canary.groupHad(a, n.Heard) && k.inGroup():
		case a.Signal == unix.SIGCONT && continued:
		default:
			_ = unix.PidfdSendSignal(k.pidfd, a.Signal, nil, 0) // the program may have ended
		}
	}
	k.tell(report{Settle: k.canary.dealt(n.Number), Heard: n.Number})
}

// inGroup reports whether the program is still in the process group that it was started in.
// An interactive shell makes its own group.
func (k *keeper) inGroup() bool {
	group, err := unix.Getpgid(k.program)
	return err != nil || group == unix.Getpgrp()
}

// attend answers the daemon. If the daemon is gone, it answers the program.
func (k *keeper) attend() {
	defer close(k.detached)
	err := k.daemon.Questions(rights{}, func(text string) { k.tell(report{Say: text}) })
	k.daemon.Close()
	if !notify.Listener(k.listener.Fd()).Abandoned() {
		say := "the daemon is gone; the program goes on, its RDMA devices answer ENODEV"
		if err != nil {
			say += " (" + err.Error() + ")"
		}
		k.tell(report{Say: say})
	}
	if err := fallback.Serve(k.listener, k.calls, k.fds, flushQueues); err != nil {
		k.tell(report{Say: "the program is left alone: " + err.Error()})
	}
	k.listener.Close()
}

// wait reaps the program and its orphans until there are none left.
func (k *keeper) wait() error {
	for {
		// Reaping and its consequences are one step, which change must not overtake.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		var ws unix.WaitStatus
		var pid int
		if err == nil {
			k.mu.Lock()
			pid, err = unix.Wait4(-1, &ws, unix.WUNTRACED|unix.WCONTINUED|unix.WNOHANG, nil)
			if pid == k.program {
				k.changed(ws)
			}
			k.mu.Unlock()
		}
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD:
			return nil
		case err != nil:
			return os.NewSyscallError("wait", err)
		case pid == k.program && (ws.Exited() || ws.Signaled()):
			k.ended(ws)
		}
	}
}

// detachTimeout bounds the wait for a daemon that does not answer.
const detachTimeout = 5 * time.Second

// ended tells the front that the program has ended. If no process of it is left, its devices
// are closed by then, as they are when the kernel ends a process.
func (k *keeper) ended(ws unix.WaitStatus) {
	end := report{Ended: true, Status: uint32(ws)}
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.ECHILD {
			select {
			case <-k.detached:
				end.Errors = k.daemon.Recorded
			case <-time.After(detachTimeout):
			}
			break
		}
		if pid == 0 || err != nil && err != unix.EINTR {
			break // a process is left
		}
	}
	k.tell(end)
}

// rights are the rights of the keeper, an ancestor of all processes of the program.
type rights struct{}

func (rights) OpenMem(pidfd int) (*os.File, error) { return trap.KeepMem(pidfd) }
func (rights) Stat(pidfd int, fd int32) (fdid.ID, error) {
	return trap.KeepStat(pidfd, fd)
}

// become runs the child: it becomes the program, or ends with an exit code.
func become(p plan) int {
	// The filter belongs to this thread, and exec makes this thread the process.
	runtime.LockOSThread()
	conn, err := proto.NewConn(os.NewFile(uintptr(p.front), "socket of the keeper"))
	if err != nil {
		complain("%v", err)
		return ExitFailed
	}
	in, err := filter.Install(p.fds, doorbellSize)
	if err != nil {
		conn.Send(installed{Error: err.Error()}) //nolint:errcheck // without a keeper no process waits for it
		return ExitFailed
	}
	if err := conn.Send(installed{Killable: in.Killable}, in.Listener); err != nil {
		return ExitFailed
	}
	unix.Close(in.Listener)
	if err := conn.RecvOnly(new(proceed)); err != nil {
		return ExitFailed // the keeper knows why, or is gone
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &p.mask, nil); err != nil {
		complain("sigprocmask: %v", err)
		return ExitFailed
	}
	if p.tracer != 0 {
		// Under Yama's ptrace_scope 1 only ancestors may copy to and from a process, and one
		// process that it names. So the daemon need not use /proc/PID/mem for the program
		// itself. Its children do not inherit that. Without Yama this is EINVAL.
		_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(p.tracer), 0, 0, 0)
	}
	err = execProgram(p.file, p.argv, os.Environ())
	complain("%v", err)
	return exitCode(err)
}
