package joint

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
)

// link is the connection to one peer.
type link struct {
	joint *Joint
	conn  *net.UnixConn
	raw   syscall.RawConn
	pid   int32
	trunk *segment.Trunk
	cost  quota.Cost
}

func newLink(j *Joint, conn *net.UnixConn) (*link, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	cost := quota.Cost{Memory: mmsg.InboxBytes(frameRoom, 0, 0), Files: 1}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) //nolint:errcheck // a smaller buffer loses more
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil {
			cost.Memory += int64(n)
		}
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	if int(cred.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("process %d belongs to user %d", cred.Pid, cred.Uid)
	}
	return &link{joint: j, conn: conn, raw: raw, pid: cred.Pid, cost: cost}, nil
}

// Send implements segment.Sender.
func (l *link) Send(frames [][]byte) (taken int) {
	return mmsg.SendFrames(l.raw, nil, frames, unix.MSG_NOSIGNAL)
}

// run receives until the peer ends, or sends what is no frame.
func (l *link) run() {
	defer l.conn.Close() //nolint:errcheck // nothing is buffered in it
	in := mmsg.NewInbox(frameRoom, 0, 0)
	for {
		n, err := in.Wait(l.raw)
		if err != nil {
			return
		}
		for i := range n {
			if frame, _, whole := in.Message(i); !l.take(frame, whole) {
				return
			}
		}
	}
}

// take takes a message. It reports false after the last one: one without a byte is the end of the
// connection.
func (l *link) take(frame []byte, whole bool) bool {
	if whole && l.trunk.Arrive(frame) {
		return true
	}
	if len(frame) > 0 {
		l.joint.log.Warn("a process on the segment sends what is no frame, and is cut off", "pid", l.pid, "bytes", len(frame), "whole", whole)
	}
	return false
}
