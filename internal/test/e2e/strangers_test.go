package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestForgedNetlink: a process of another user writes forged answers to every port of
// NETLINK_USERSOCK, as long as programs ask for devices. None of them takes one for the kernel's.
func TestForgedNetlink(t *testing.T) {
	need(t, "ibv_devinfo", "rdma")
	if native != "" || !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	forger := start(t, d.host, []string{roleEnv + "=forge"}, exe)
	if !until(programLimit, func() bool { return strings.Contains(forger.out.String(), "forging") || forger.ended() }) || forger.ended() {
		t.Fatalf("the forger: %s", forger.describe())
	}
	programs := [][]string{{"ibv_devinfo"}, {"rdma", "link"}, {"rdma", "res", "show"}, {"rdma", "stat"}}
	for i := range 25 {
		argv := programs[i%len(programs)]
		if i == 24 {
			argv = newer(t).argv("ibv_devinfo")
		}
		if out := d.run(t, argv...).ok(); !strings.Contains(out, "rxe0") {
			t.Errorf("%v:\n%s", argv, out)
		}
	}
	if forger.ended() {
		t.Errorf("the forger has ended: %s", forger.describe())
	}
}

// playForge sends an error to each port of NETLINK_USERSOCK, for ever.
func playForge() int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	order := binary.NativeEndian
	forged := order.AppendUint32(nil, 36)
	forged = order.AppendUint16(order.AppendUint16(forged, unix.NLMSG_ERROR), 0)
	forged = order.AppendUint32(order.AppendUint32(forged, 0), 0)
	forged = order.AppendUint32(forged, ^uint32(0)) // EPERM
	forged = append(forged, make([]byte, 16)...)
	for turn := 0; ; turn++ {
		table, err := os.ReadFile("/proc/self/net/netlink")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		for line := range bytes.Lines(table) { // sk Eth Pid Groups ...
			f := strings.Fields(string(line))
			if len(f) < 3 || f[1] != strconv.Itoa(unix.NETLINK_USERSOCK) {
				continue
			}
			port, err := strconv.ParseUint(f[2], 10, 32)
			if err == nil {
				_ = unix.Sendto(fd, forged, unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: uint32(port)})
			}
		}
		if turn == 0 {
			fmt.Println("forging")
		}
	}
}

// TestNetlinkOfNoNamespace: a program is in a network namespace of its own. Through its socket for
// NETLINK_RDMA, it reaches nothing of the daemon's namespace. Nor does it after it has moved the
// descriptor to where no call is trapped.
func TestNetlinkOfNoNamespace(t *testing.T) {
	need(t, "unshare")
	if native != "" || !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := d.run(t, "unshare", "--net", "env", roleEnv+"=reach", exe).ok()
	if out != "nothing\n" {
		t.Errorf("the program reaches:\n%s", out)
	}
}

// playReach prints what the ioctls of sockets say on a socket for NETLINK_RDMA.
func playReach() int {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	const low = 100
	if err := unix.Dup3(fd, low, unix.O_CLOEXEC); err != nil {
		fmt.Println(err)
		return 1
	}
	reached := false
	for _, fd := range []int{fd, low} {
		for index := range uint32(200) {
			var ifr [40]byte
			binary.NativeEndian.PutUint32(ifr[16:], index)
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFNAME, uintptr(unsafe.Pointer(&ifr)))
			if errno == 0 {
				fmt.Printf("descriptor %d: interface %d, %s\n", fd, index, bytes.TrimRight(ifr[:16], "\x00"))
				reached = true
			}
		}
		if ns, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS); err == nil {
			fmt.Printf("descriptor %d: a network namespace, %d\n", fd, ns)
			reached = true
		}
	}
	if err := unix.Sendto(low, []byte("x"), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != unix.ENOTSOCK {
		fmt.Println("descriptor", low, "takes a datagram:", err)
		reached = true
	}
	if !reached {
		fmt.Println("nothing")
	}
	return 0
}

// TestFakeDaemon: a process of another user listens where root looks for a daemon. No client of
// root's sends it anything; each names the user, the socket and the remedy.
func TestFakeDaemon(t *testing.T) {
	need(t, "/usr/bin/python3")
	if native != "" || !selection.takes(core) {
		return
	}
	if oneUser {
		t.Skip("there is one user here")
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	socket := newSocket(t)
	if err := os.Chown(filepath.Dir(socket), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	fake := start(t, h.as(65534, 65534), nil, "/usr/bin/python3", "-c", fakeDaemon, socket)
	if !until(programLimit, func() bool { return strings.Contains(fake.out.String(), "listening") || fake.ended() }) || fake.ended() {
		t.Fatalf("the fake daemon: %s", fake.describe())
	}
	for _, args := range [][]string{
		{"run", "--socket", socket, "true"}, {"run", "--device", "rxe0=lo", "--socket", socket, "true"}, {"status", "--socket", socket},
		{"daemon", "--device", "rxe0=lo", "--socket", socket}, {"fault", "list", "--socket", socket},
	} {
		p := start(t, h, nil, append([]string{gorxe}, args...)...)
		code, text := p.wait(), p.out.String()
		if code == 0 || args[0] == "run" && code != 125 {
			t.Errorf("gorxe %v ended with %d", args, code)
		}
		for _, word := range []string{"65534", socket, "--socket"} {
			if !strings.Contains(text, word) {
				t.Errorf("gorxe %v does not name %s:\n%s", args, word, text)
			}
		}
	}
	if got := fake.out.String(); strings.Contains(got, "received") {
		t.Errorf("the fake daemon: %s", got)
	}
}

// fakeDaemon listens as a daemon does, and prints what comes.
const fakeDaemon = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen(16)
print("listening", flush=True)
while True:
    c = s.accept()[0]
    try:
        b = c.recv(1 << 14)
    except OSError:
        b = b""
    if b:
        print("received", b, flush=True)
`

// inContainer is root as a container has it: it may not look at processes of other users.
var inContainer = []string{"setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"}

// asUser is a command that becomes an ordinary user and executes a program, like gosu and su-exec.
var asUser = []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}

// dropOnly becomes an ordinary user, executes nothing, and then asks for a device.
const dropOnly = `
import os, socket
os.setgid(65534)
os.setuid(65534)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
except OSError as e:
    print("refused:", e)
`

// dropInChild opens a device as root. A child that has used it becomes an ordinary user, and prints
// what does not work then.
const dropInChild = `
import errno, os
fd, other = [os.open("/dev/infiniband/uverbs0", os.O_RDWR) for _ in range(2)]
def refused():
    try:
        os.write(fd, b"x")
    except OSError as e:
        return e.errno == errno.EINVAL # as a device refuses it; what is behind the descriptor does not
child = os.fork()
if child == 0:
    if not refused():
        print("the child has no device", flush=True)
    os.setgid(65534)
    os.setuid(65534)
    os.close(other) # so that the daemon looks at fd again
    if not refused():
        print("the child has lost the device", flush=True)
    os._exit(0)
os.waitpid(child, 0)
if not refused():
    print("the parent has lost the device")
`

// playDrop opens devices as root, becomes an ordinary user, and prints what does not work then.
func playDrop() int {
	const verbs, cm = "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"
	var fds [3]int
	for i, path := range []string{verbs, cm, verbs} {
		var err error
		if fds[i], err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			fmt.Println(path, err)
			return 1
		}
	}
	runtime.LockOSThread()
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, 65534, 65534, 65534); errno != 0 {
			fmt.Println(errno)
			return 1
		}
	}
	// a device refuses a command that short; what is behind the descriptor does not
	for i, fd := range fds[:2] {
		if _, err := unix.Write(fd, []byte{0}); err != unix.EINVAL {
			fmt.Println("descriptor", i, "takes a byte:", err)
		}
	}
	// A number that has become another file's is not the device's any more.
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(null, fds[2], unix.O_CLOEXEC)
	}
	if err == nil {
		_, err = unix.Write(fds[2], []byte{0})
	}
	if err != nil {
		fmt.Println("another file in the place of a device:", err)
	}
	return 0
}

// TestDropRoot: a program that root starts, and that becomes an ordinary user before it executes
// another one, keeps the device, also where root has no CAP_SYS_PTRACE. One that executes nothing
// keeps what it has open, and is told why it gets nothing else.
func TestDropRoot(t *testing.T) {
	need(t, "setpriv", "ibv_devinfo", "rdma", "ibv_rc_pingpong", "/usr/bin/python3")
	if native != "" || !selection.takes(core) {
		return
	}
	if oneUser {
		t.Skip("there is one user here")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	for name, under := range map[string][]string{"with all capabilities": nil, "as in a container": inContainer} {
		t.Run(name, func(t *testing.T) {
			d := startDaemonAt(t, h, under, newSocket(t), "--device", "rxe0=lo")
			run := func(t *testing.T, argv ...string) *proc {
				t.Helper()
				return start(t, h, d.env(), slices.Concat(under, []string{gorxe, "run", "--"}, argv)...)
			}
			dropped := func(t *testing.T, argv ...string) *proc {
				t.Helper()
				return run(t, slices.Concat(asUser, argv)...)
			}
			for _, argv := range [][]string{{"ibv_devinfo"}, {"rdma", "link"}} {
				if out := dropped(t, argv...).ok(); !strings.Contains(out, "rxe0") {
					t.Errorf("%v:\n%s", argv, out)
				}
			}
			if p := dropped(t, "cat", "/dev/infiniband/umad0"); p.wait() == 0 || !strings.Contains(p.out.String(), "Permission denied") {
				t.Errorf("umad0: %s", p.describe())
			}
			o := topology{server: dropped, client: dropped, host: h}
			o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-e", "-n", "20").good(t)
			if out := run(t, "env", roleEnv+"=drop", exe).ok(); out != "" {
				t.Errorf("descriptors that root opened: %s", out)
			}
			if out := run(t, "/usr/bin/python3", "-c", dropInChild).ok(); out != "" {
				t.Errorf("a descriptor that the parent opened: %s", out)
			}
			out := run(t, "/usr/bin/python3", "-c", dropOnly).ok()
			told := strings.Contains(out, "refused") && strings.Contains(out, "of user 65534, has no RDMA device")
			if (under != nil) != told {
				t.Errorf("a program that executes nothing: %s", out)
			}
		})
	}
}

// rightsSeen is what a program may do in several states, by name: the errno, 0 if it succeeds.
type rightsSeen map[string]unix.Errno

// TestRightsAtEachUse: what a program may do follows its rights at that moment, whichever it had
// when it used the device first. Each thread has its own.
func TestRightsAtEachUse(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	if oneUser {
		t.Skip("there is one user here")
	}
	d := oneDaemon(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wanted := rightsSeen{
		"root opens umad0": 0, "root asks for umad0": 0, "root joins a group": 0,
		"a thread of root beside it opens umad0":        0,
		"root with another fsuid opens umad0":           unix.EACCES,
		"root with another real user asks for umad0":    unix.EACCES,
		"root with another real user opens umad0":       0,
		"root without capabilities joins a group":       unix.EPERM,
		"another user opens umad0":                      unix.EACCES,
		"another user asks for umad0":                   unix.EACCES,
		"another user reads receive_filter_drop":        unix.EACCES,
		"another user opens uverbs0":                    0,
		"another user joins a group":                    unix.EPERM,
		"another user asks for uverbs0":                 0,
		"another user moves a link as rdma does":        unix.EPERM,
		"root moves a link as rdma does":                unix.EOPNOTSUPP,
		"root without capabilities moves a link so too": unix.EPERM,
	}
	var seen rightsSeen
	out := d.run(t, "env", roleEnv+"=rights", exe).ok()
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range wanted {
		if got, ok := seen[name]; !ok || got != want {
			t.Errorf("%s: %v (%t), want %v", name, got, ok, want)
		}
	}
}

// playRights uses the device as root, and then with other rights. Each change is of one thread.
func playRights() int {
	const user = 65534
	seen := make(rightsSeen)
	note := func(name string, err error) {
		errno, _ := err.(unix.Errno)
		if errno == 0 && err != nil {
			fmt.Println(name, err)
		}
		seen[name] = errno
	}
	open := func(path string) error {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	const umad, verbs = "/dev/infiniband/umad0", "/dev/infiniband/uverbs0"
	ask := func(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }
	raw := func(call uintptr, args ...uintptr) {
		args = append(args, 0, 0, 0)
		if _, _, errno := unix.RawSyscall(call, args[0], args[1], args[2]); errno != 0 {
			fmt.Println("call", call, errno)
		}
	}
	keep := ^uintptr(0)
	note("root opens umad0", open(umad))
	note("root asks for umad0", ask(umad))
	note("root joins a group", joinGroup())
	note("root moves a link as rdma does", setLink())
	inThread := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // it ends with the goroutine
			f()
		}()
		<-done
	}
	inThread(func() {
		raw(unix.SYS_SETFSUID, user)
		note("root with another fsuid opens umad0", open(umad))
	})
	inThread(func() {
		raw(unix.SYS_SETRESUID, user, keep, keep)
		note("root with another real user asks for umad0", ask(umad))
		note("root with another real user opens umad0", open(umad))
	})
	inThread(func() {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			fmt.Println("capset:", err)
		}
		note("root without capabilities joins a group", joinGroup())
		note("root without capabilities moves a link so too", setLink())
	})
	inThread(func() {
		raw(unix.SYS_SETRESGID, user, user, user)
		raw(unix.SYS_SETRESUID, user, user, user)
		note("another user opens umad0", open(umad))
		note("another user asks for umad0", ask(umad))
		fd, err := unix.Open("/sys/class/infiniband/rxe0/ports/1/hw_counters/receive_filter_drop", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		note("another user reads receive_filter_drop", err)
		note("another user opens uverbs0", open(verbs))
		note("another user asks for uverbs0", ask(verbs))
		note("another user joins a group", joinGroup())
		note("another user moves a link as rdma does", setLink())
	})
	note("a thread of root beside it opens umad0", open(umad))
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		return 1
	}
	return 0
}

// joinGroup joins the group of notifications, as rdma monitor does.
func joinGroup() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, 4)
}

// setLink sends RDMA_NLDEV_CMD_SET, and returns what the answer says.
func setLink() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	order := binary.NativeEndian
	msg := order.AppendUint32(nil, unix.SizeofNlMsghdr)
	msg = order.AppendUint16(order.AppendUint16(msg, 5<<10|2), unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg = order.AppendUint32(order.AppendUint32(msg, 1), 0)
	if err := unix.Send(fd, msg, 0); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 || order.Uint16(buf[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("%d bytes, %w", n, err)
	}
	if errno := unix.Errno(-int32(order.Uint32(buf[unix.SizeofNlMsghdr:]))); errno != 0 {
		return errno
	}
	return nil
}
