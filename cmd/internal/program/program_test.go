package program

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestStopGroup: what a shell has started ends with it, if the program has a group of its own.
func TestStopGroup(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	p := must.Get[*Program](t)(Start(Config{
		Group: true, Files: []*os.File{nil, w, nil},
		Start: func(cmd *exec.Cmd) error {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "sleep 1000 & echo x; wait"}
			return cmd.Start()
		},
	}))
	w.Close()
	must.Get[int](t)(io.ReadFull(r, make([]byte, 2))) // sleep is started
	p.Stop()
	// it returns when no process has the pipe
	if _, err := io.ReadAll(r); err != nil || p.Code() != 128+15 {
		t.Errorf("%v, exit code %d", err, p.Code())
	}
}
