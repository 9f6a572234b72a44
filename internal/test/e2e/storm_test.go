package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNetlinkStorm: a program floods as many sockets as it gets with requests for dumps and with
// nonsense, and never reads. Other programs work meanwhile, and nothing is left of it.
func TestNetlinkStorm(t *testing.T) {
	need(t, "rdma", "ibv_rc_pingpong")
	if native != "" || !selection.takes(standard) {
		return
	}
	d := oneDaemon(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	storm := d.run(t, "env", roleEnv+"=storm", exe)
	if !until(programLimit, func() bool { return storm.ended() || strings.Contains(storm.out.String(), "flooding") }) || storm.ended() {
		t.Fatalf("the storm: %s", storm.describe())
	}
	for range 20 {
		if links := launch(d.run).rdma(t, release{}, "link", "show"); len(links) != 1 {
			t.Errorf("rdma link: %v", links)
		}
	}
	o := topology{server: d.run, client: d.run, host: d.host}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
	if storm.ended() {
		t.Errorf("the storm is over: %s", storm.describe())
	}
	name := filepath.Base(exe)
	storm.killProgram(name[:min(len(name), 15)]) // as the kernel cuts it
}

// playStorm floods sockets for ever.
func playStorm() int {
	var fds []int
	for {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_RDMA)
		if err == unix.EMFILE {
			break
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fds = append(fds, fd)
	}
	if len(fds) < 100 {
		fmt.Println("only", len(fds), "sockets")
		return 1
	}
	order := binary.NativeEndian
	message := func(command, flags uint16, body ...byte) []byte {
		b := order.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
		b = order.AppendUint16(order.AppendUint16(b, 5<<10|command), unix.NLM_F_REQUEST|flags)
		return append(order.AppendUint32(order.AppendUint32(b, 1), 0), body...)
	}
	var packed []byte
	for range 64 {
		packed = append(packed, message(1, unix.NLM_F_ACK, 8, 0, 1, 0, 0, 0, 0, 0)...)
	}
	requests := [][]byte{
		message(1, unix.NLM_F_DUMP), message(9, unix.NLM_F_DUMP), message(23, unix.NLM_F_DUMP, 8, 0, 1, 0, 0, 0, 0, 0),
		message(1, 0, 200, 0, 1, 0), message(1, 0, 3, 0, 1, 0), message(1023, unix.NLM_F_ACK), packed, {1}, make([]byte, 4096),
	}
	for turn := 0; ; turn++ {
		for _, fd := range fds {
			for _, r := range requests {
				// ENOBUFS is right when too much waits.
				if err := unix.Send(fd, r, 0); err != nil && err != unix.ENOBUFS {
					fmt.Println("send:", err)
					return 1
				}
			}
		}
		if turn == 1 {
			fmt.Println("flooding", len(fds))
		}
	}
}
