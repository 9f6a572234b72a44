package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packetsIn is the number of packets in a capture.
func packetsIn(t *testing.T, file string) int {
	t.Helper()
	p := start(t, &host{}, nil, gorxe, "pcap", "check", "--json", "--allow-empty", file)
	code := p.wait()
	var all judged
	if err := json.Unmarshal([]byte(p.out.String()), &all); err != nil || code != 0 || len(all) != 1 {
		t.Fatalf("%s: exit status %d, %v\n%s", p.name, code, err, p.out.String())
	}
	return all[0].Packets
}

// pingpongPair are the words of a pair of ibv_rc_pingpong that exchanges 10 messages.
func pingpongPair(client string) []string {
	words := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "10"}
	return slices.Concat(words, []string{"--"}, words, []string{client})
}

// TestRunsAfterEachOther: a run has nothing of the run before it. A capture begins with its run and
// ends with it, and without flags a run has the device that it would have without the run before.
// None finds a UDP port busy, at its own socket and at another one.
func TestRunsAfterEachOther(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ibv_devinfo")
	notNative(t, "gorxe run")
	if !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	a.ip(t, "route add default via 10.88.0.2")
	user, env := nobody(t, a)
	dir := filepath.Dir(strings.TrimSuffix(strings.SplitN(env[0], "=", 2)[1], "/gorxe.sock") + "/x")
	do := func(words ...string) string {
		t.Helper()
		return start(t, user, env, append([]string{gorxe}, words...)...).ok()
	}
	capture := filepath.Join(dir, "q.pcapng")
	flags := []string{"--device", "rxe0=lo", "--pcap", capture}
	pair := func(flags []string) {
		t.Helper()
		do(slices.Concat([]string{"pair"}, flags, pingpongPair("127.0.0.1"))...)
	}
	first := 0
	for i := range 3 {
		pair(flags)
		if n := packetsIn(t, capture); i == 0 {
			first = n
		} else if n != first {
			t.Errorf("run %d: %d packets; the first run had %d", i+1, n, first)
		}
	}
	if first == 0 {
		t.Error("the capture has no packet")
	}
	pair(nil)
	if n := packetsIn(t, capture); n != first {
		t.Errorf("a run without --pcap made the capture of the run before it %d packets long; it had %d", n, first)
	}
	do("run", "--device", "rxe7=lo", "true")
	if list := do("run", "ibv_devinfo"); !strings.Contains(list, "rxe0") || strings.Contains(list, "rxe7") || !strings.Contains(list, "active_mtu:\t\t1024") {
		t.Errorf("a run without flags, after one with:\n%s", list)
	}
	for i := range 10 {
		do("run", "--socket", filepath.Join(dir, fmt.Sprint("socket", i%3)), "--explain", "--device", "rxe0=lo", "true")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*sock*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the runs left %q, %v", left, err)
	}
}
