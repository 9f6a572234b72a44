// Package agent runs programs on a machine at the other end of a stream of bytes. The stream
// is a virtual serial port of the tests' guest, or a pipe within the process.
//
// Both ends send JSON values. A request names a program by a number that the client
// chooses. Replies have the output of the program, and finally its exit status.
package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The operations.
const (
	opStart  = "start"  // Argv
	opInput  = "input"  // Data for the program's standard input
	opKill   = "kill"   // the program and its process group
	opListen = "listen" // wait until something listens on TCP port Port
)

type request struct {
	ID   int      `json:"id"`
	Op   string   `json:"op"`
	Argv []string `json:"argv,omitempty"`
	Data []byte   `json:"data,omitempty"`
	Port int      `json:"port,omitempty"`
}

type reply struct {
	ID   int    `json:"id"`
	Out  []byte `json:"out,omitempty"`
	Done bool   `json:"done,omitempty"`
	Exit int    `json:"exit,omitempty"` // status, or minus the signal
	Err  string `json:"err,omitempty"`
}

// listenTimeout bounds opListen: a program that never listens has failed.
const listenTimeout = 60 * time.Second

// Serve answers requests until the stream ends. What still runs then is killed.
func Serve(stream io.ReadWriter) error {
	s := server{running: map[int]*job{}, out: json.NewEncoder(stream)}
	defer s.killAll()
	in := json.NewDecoder(bufio.NewReader(stream))
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			return err
		}
		s.handle(&r)
	}
}

type server struct {
	mu      sync.Mutex
	running map[int]*job

	outMu sync.Mutex
	out   *json.Encoder
}

type job struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func (s *server) handle(r *request) {
	switch r.Op {
	case opStart:
		if err := s.start(r); err != nil {
			s.send(reply{ID: r.ID, Done: true, Exit: 127, Err: err.Error()})
		}
	case opInput:
		if j := s.job(r.ID); j != nil {
			j.stdin.Write(r.Data) //nolint:errcheck // a program that ended: its exit says so
		}
	case opKill:
		if j := s.job(r.ID); j != nil {
			j.kill()
		}
	case opListen:
		go s.listen(r)
	default:
		s.send(reply{ID: r.ID, Done: true, Exit: 127, Err: "no operation " + r.Op})
	}
}

func (s *server) send(r reply) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	s.out.Encode(r) //nolint:errcheck // Serve sees the end of the stream
}

func (s *server) job(id int) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

func (s *server) start(r *request) error {
	if len(r.Argv) == 0 {
		return fmt.Errorf("no program named")
	}
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Dir = "/"
	out := &chunks{server: s, id: r.ID}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // for children that keep the pipe open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.running[r.ID] = &job{cmd: cmd, stdin: stdin}
	s.mu.Unlock()
	go func() {
		cmd.Wait() //nolint:errcheck // ProcessState says it
		s.mu.Lock()
		delete(s.running, r.ID)
		s.mu.Unlock()
		s.send(reply{ID: r.ID, Done: true, Exit: exitOf(cmd.ProcessState)})
	}()
	return nil
}

func exitOf(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return p.ExitCode()
}

func (j *job) kill() {
	syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // it may be gone
}

func (s *server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.running {
		j.kill()
	}
}

// chunks sends the output of a program.
type chunks struct {
	server *server
	id     int
}

func (c *chunks) Write(p []byte) (int, error) {
	c.server.send(reply{ID: c.id, Out: p})
	return len(p), nil
}

func (s *server) listen(r *request) {
	deadline := time.Now().Add(listenTimeout)
	for !listens(r.Port) {
		if time.Now().After(deadline) {
			s.send(reply{ID: r.ID, Done: true, Exit: 1, Err: fmt.Sprintf("nothing listens on TCP port %d", r.Port)})
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.send(reply{ID: r.ID, Done: true})
}

// listens looks into the tables of the network namespace: to connect would be an
// event for the program.
func listens(port int) bool {
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// "  0: 00000000:4853 00000000:0000 0A ...": address, peer, LISTEN.
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
	}
	return false
}
