package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// switches returns how often each of the daemon's threads has left a processor.
func (d *daemon) switches(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(d.pid()), "task/*/status"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of the daemon: %v", err)
	}
	n := map[string]string{}
	for _, f := range files {
		text, _ := os.ReadFile(f) // a thread that has ended meanwhile has an empty text
		_, n[f], _ = strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	}
	return n
}

// TestQuietDaemon: no thread of a daemon runs while its programs have connected queue pairs and do
// nothing. A thread that woke up once in a second would run in each of the windows.
func TestQuietDaemon(t *testing.T) {
	besideOthers(t)
	need(t, "ib_write_bw")
	if !selection.takes(standard) {
		return
	}
	const window = 1500 * time.Millisecond
	d := oneDaemon(t)
	name := victims[0].argv[0]
	tr := d.traffic(t, victims[0].argv...)
	for _, p := range []*proc{tr.client, tr.server} {
		p.signalProgram(name, syscall.SIGSTOP)
	}
	if !until(programLimit, func() bool {
		before := d.switches(t)
		time.Sleep(window)
		return maps.Equal(d.switches(t), before)
	}) {
		t.Errorf("threads of the daemon ran in each %v", window)
	}
	for _, p := range []*proc{tr.client, tr.server} {
		p.killProgram(name)
		// gorxe run has stopped like its program, as a shell's job does.
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	tr.client.wait()
	tr.server.wait()
	d.idle()
}
