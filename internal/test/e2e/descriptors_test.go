package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openFilesLimit returns the largest limit of open files that the tests can give a program.
func openFilesLimit(t *testing.T) int {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Max, 1<<20))
}

// TestSelectable: whatever the limit of open files is, and however it is changed while the program
// runs, programs can call select(2) with the descriptors that they wait for. Files of their own
// stay where they are.
func TestSelectable(t *testing.T) {
	need(t, "prlimit")
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "descriptors")
	d := oneDaemon(t)
	most := openFilesLimit(t)
	if most < 2048 {
		t.Skipf("the hard limit of open files is %d", most)
	}
	for _, c := range []struct{ limit, program string }{
		{"256:256", "selectable"}, {"1024:1024", "selectable"}, {"2048:2048", "selectable"}, {fmt.Sprintf("%d:%d", most, most), "selectable"},
		{"64:%d", "lowered"}, {"1024:%d", "lowered"}, {"%d:%[1]d", "lowered"}, {"2048:%d", "beside"},
	} {
		if strings.Contains(c.limit, "%") {
			c.limit = fmt.Sprintf(c.limit, most)
		}
		t.Run(c.program+" "+c.limit, func(t *testing.T) {
			p := start(t, d.host, d.env(), "prlimit", "--nofile="+c.limit, gorxe, "run", "--", bin, c.program)
			if out := p.ok(); out != "ok\n" {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestClosedComesBack: completion channels, event channels and devices that were closed leave their
// descriptors of the daemon to the next ones at once, of another kind and of another program, too.
func TestClosedComesBack(t *testing.T) {
	need(t, "prlimit")
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "descriptors")
	a, _ := twoHosts(t, 1500)
	// A user has 237 or less of the daemon's 1,024 descriptors.
	d := startDaemonAt(t, a, []string{"prlimit", "--nofile=1024:1024"}, newSocket(t), "--device", "rxe0=eth0")
	for range 2 {
		if out := d.run(t, bin, "again", "80").ok(); out != "ok\n" {
			t.Errorf("%s", out)
		}
	}
}

// TestManyOpens: a program may open the device as often as its limit of open files allows. Each
// open has a second descriptor, for events. A private daemon with the same hard limit has room for
// a third of that number.
func TestManyOpens(t *testing.T) {
	need(t, "prlimit")
	if native != "" || !selection.takes(standard) {
		return
	}
	bin := compile(t, "descriptors")
	d := oneDaemon(t)
	if openFilesLimit(t) < 8192 {
		t.Skip("the daemon has too few descriptors")
	}
	for _, opens := range []int{500, 600} {
		p := start(t, d.host, d.env(), "prlimit", "--nofile=1024", gorxe, "run", "--", bin, "devices", strconv.Itoa(opens))
		if opens < 1024/2 {
			if out := p.ok(); out != "ok\n" {
				t.Errorf("%s", out)
			}
		} else if p.wait() == 0 {
			t.Errorf("%d devices with 1024 descriptors", opens)
		}
	}
	p := start(t, d.host, nil, "prlimit", "--nofile=1024:1024", gorxe, "run", "--private", "--", bin, "devices", "280")
	if out := p.ok(); out != "ok\n" {
		t.Errorf("%s", out)
	}
}
