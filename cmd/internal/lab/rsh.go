package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/cmd/internal/program"
)

// A program of a lab can run a command on another host (gorxe rsh), as ssh does. It asks the lab
// through a socket: one message with the host, the line for the shell, and the three standard
// files. The answer is the exit code. If the asker ends, so does the command.

// envSocket is the variable with the path of that socket.
const envSocket = "GORXE_LAB"

// maxAsk bounds the message: no line for the shell is longer (MAX_ARG_STRLEN of Linux).
const maxAsk = 128 << 10

// standard are the files of a command: its input, its output and its errors.
const standard = 3

// asked is the message.
type asked struct{ Host, Line string }

// Rsh runs a line of the shell on a host of the lab around this process. It returns the exit code.
func Rsh(host, line string) (int, error) {
	path := os.Getenv(envSocket)
	if path == "" {
		return program.Failed, errors.New("no lab has started this program: see gorxe lab")
	}
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return program.Failed, fmt.Errorf("the lab does not answer: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing is buffered in it
	text, err := json.Marshal(asked{host, line})
	if err != nil {
		return program.Failed, err
	}
	if len(text) > maxAsk {
		return program.Failed, fmt.Errorf("the command is longer than %d bytes", maxAsk)
	}
	if _, _, err := conn.WriteMsgUnix(text, unix.UnixRights(0, 1, 2), nil); err != nil {
		return program.Failed, err
	}
	answer := make([]byte, maxAsk)
	n, err := conn.Read(answer)
	if err != nil || n == 0 {
		return program.Failed, errors.New("the lab has ended")
	}
	code, why, _ := strings.Cut(string(answer[:n]), " ")
	number, err := strconv.Atoi(code)
	if err != nil || why != "" {
		return program.Failed, errors.New(why)
	}
	return number, nil
}

// listen opens the socket. Its directory has the right mode, and only this user may connect.
func (r *run) listen() (err error) {
	r.socket = filepath.Join(r.dir, "rsh")
	if r.listener, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: r.socket, Net: "unixpacket"}); err != nil {
		return err
	}
	return os.Chmod(r.socket, 0o600)
}

// serve answers until the listener is closed.
func (r *run) serve(ctx context.Context) {
	for {
		conn, err := r.listener.AcceptUnix()
		if err != nil {
			return
		}
		r.asked.Go(func() {
			defer conn.Close() //nolint:errcheck // as above
			code, err := r.answer(ctx, conn)
			text := strconv.Itoa(code)
			if err != nil {
				text += " " + err.Error()
			}
			conn.Write([]byte(text)) //nolint:errcheck // who asked may have ended
		})
	}
}

// answer runs one command.
func (r *run) answer(ctx context.Context, conn *net.UnixConn) (int, error) {
	// A program may connect and send nothing. The end of the lab does not wait for it.
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) }) //nolint:errcheck // a deadline can be set
	line, files, err := receive(conn)
	stop()
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return program.Failed, err
	}
	h := r.Lab.Host(line.Host)
	if h == nil {
		return program.Failed, fmt.Errorf("%s: the lab has no such host", line.Host)
	}
	gone := make(chan struct{})
	go func() {
		conn.Read(make([]byte, 1)) //nolint:errcheck // it returns when the other end is closed
		close(gone)
	}()
	if err := r.untilBegun(ctx, h, gone, files[2]); err != nil {
		return program.Failed, err
	}
	e := &End{Host: h, Command: []string{"sh", "-c", line.Line}, Asked: true, files: files}
	p, err := r.start(e)
	if err != nil {
		return program.Failed, err
	}
	select {
	case <-p.Done():
	case <-gone:
		e.Stopped = true
	case <-ctx.Done():
		e.Stopped = true
	}
	p.Stop()
	e.Code = p.Code()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more = append(r.more, *e)
	return e.Code, nil
}

// untilBegun waits for the program of a host, which chooses what its daemon captures, and tells the
// asker for what. gone is closed if the asker ends.
func (r *run) untilBegun(ctx context.Context, h *labfile.Host, gone <-chan struct{}, says io.Writer) error {
	begun := r.begun[h.Name]
	select {
	case <-begun:
		return nil
	default:
	}
	if len(h.WaitFor) > 0 {
		fmt.Fprintf(says, "gorxe: the program of %s still waits for %s: this command begins after it\n", h.Name, strings.Join(h.WaitFor, ", "))
	}
	select {
	case <-begun:
		return nil
	case <-gone:
		return errors.New("the command is not wanted any more")
	case <-ctx.Done():
		return errors.New("the lab has ended")
	}
}

// receive receives what a program asks.
func receive(conn *net.UnixConn) (line asked, files []*os.File, err error) {
	text, control := make([]byte, maxAsk), make([]byte, unix.CmsgSpace(4*standard))
	n, cn, flags, _, err := conn.ReadMsgUnix(text, control)
	if err != nil {
		return line, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil {
		return line, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return line, files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "a file of the command"))
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(files) != standard {
		return line, files, errors.New("a command has a line and three files")
	}
	return line, files, json.Unmarshal(text[:n], &line)
}
