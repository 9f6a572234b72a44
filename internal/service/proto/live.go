package proto

import (
	"errors"
	"io"
	"time"
)

// Live is a live capture of a daemon's devices.
type Live struct{ client *Client }

// liveTimeout bounds the wait for a daemon's answer. A daemon of another build may not answer.
const liveTimeout = 10 * time.Second

// DialLive connects to the daemon at one of paths, and begins a capture.
func DialLive(paths []string) (*Live, error) {
	client, err := Dial(paths)
	if err != nil {
		return nil, err
	}
	l := &Live{client}
	if err := l.begin(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Live) begin() error {
	if err := l.client.Conn.Send(Request{Version: ProtocolVersion, Op: OpLive}); err != nil {
		return l.client.broken(err)
	}
	var r Reply
	fds, err := l.client.Conn.RecvWithin(&r, liveTimeout)
	if err != nil {
		return l.client.broken(err)
	}
	CloseAll(fds)
	return r.err()
}

// CopyTo writes the capture, as pcapng, until the daemon ends or writing fails. It returns nil when
// the daemon has ended.
func (l *Live) CopyTo(w io.Writer) error {
	buf := make([]byte, 1<<16)
	for {
		n, err := l.client.Conn.Sock.Read(buf)
		if err != nil {
			if err = l.client.broken(err); errors.Is(err, ErrEnding) {
				return nil
			}
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// Close ends the capture.
func (l *Live) Close() { l.client.Close() }
