package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/test/must"
	"golang.org/x/sys/unix"
)

// DPDK's testpmd drives an adapter's queues itself. Its default flow engine makes rules by mlx5dv's
// matchers in the root table, because other tables need DevX. It uses no huge pages here, because
// few machines have some.
type dpdk struct {
	release
	common []string
}

const dpdkDevice = "fe00:00:00.0"

func dpdks(t *testing.T) (list []dpdk) {
	t.Helper()
	for _, debian := range []string{"bookworm", "trixie"} {
		list = append(list, dpdk{unpacked(t, "dpdk-"+debian, "scripts/dpdk-root.sh"),
			[]string{"--no-huge", "--no-shconf", "--no-telemetry", "-m", "768", "-l", "0,1"}})
	}
	return list
}

// start starts testpmd on a device with options, until finish.
func (d dpdk) start(t *testing.T, run launch, devargs string, options ...string) *testpmd {
	t.Helper()
	argv := append([]string{"dpdk-testpmd"}, d.common...)
	argv = append(argv, "-a", dpdkDevice+devargs, "--", "--total-num-mbufs=16384", "--rxd=256", "--txd=256", "--stats-period", "1", "--auto-start")
	p := &testpmd{run(t, d.argv(append(argv, options...)...)...)}
	if !until(programLimit, func() bool { return p.ended() || strings.Contains(p.out.String(), "Port statistics") }) || p.ended() ||
		strings.Contains(p.out.String(), "Not all ports were started") {
		t.Fatalf("testpmd does not begin:\n%s", p.out.String())
	}
	return p
}

type testpmd struct{ *proc }

// count is the newest value of a counter, as RX-packets.
func (p *testpmd) count(name string) (n int) {
	all := regexp.MustCompile(name+`: *(\d+)`).FindAllStringSubmatch(p.out.String(), -1)
	if len(all) > 0 {
		n, _ = strconv.Atoi(all[len(all)-1][1])
	}
	return n
}

// has waits until a counter is at least so large.
func (p *testpmd) has(name string, least int) {
	p.t.Helper()
	if !until(programLimit, func() bool { return p.count(name) >= least || p.ended() }) || p.ended() {
		p.t.Errorf("%s are %d, not %d:\n%s", name, p.count(name), least, p.out.String())
	}
}

func (p *testpmd) finish() string {
	p.t.Helper()
	p.signalProgram("dpdk-testpmd", syscall.SIGINT)
	return p.ok()
}

// TestDPDK: testpmd of two releases sends and receives, within a daemon and across a veth. Its
// queues have requests for a frame or for many, and are one or four. Its rules are mlx5dv's, or
// those of verbs.
func TestDPDK(t *testing.T) {
	if native != "" || !selection.takes(complete) {
		return
	}
	a, b := twoHosts(t, 1500)
	da, db := startDaemon(t, a, "--device", "mlx5_0=eth0"), startDaemon(t, b, "--device", "mlx5_0=eth0")
	const verbs, strides, frames = ",dv_flow_en=0", ",mprq_en=1,rxqs_min_mprq=1", 2000
	for _, d := range dpdks(t) {
		for _, way := range []struct {
			name string
			run  launch
		}{{"one daemon", da.run}, {"across a veth", db.run}} {
			for name, devargs := range map[string]string{"frames": "", "strides": strides, "verbs": verbs} {
				t.Run(d.name+"/"+way.name+"/"+name, func(t *testing.T) {
					rx := d.start(t, way.run, devargs, "--forward-mode=rxonly")
					tx := d.start(t, da.run, "", "--forward-mode=txonly")
					tx.has("TX-packets", frames)
					rx.has("RX-packets", frames)
					tx.finish()
					rx.finish()
				})
			}
		}
		t.Run(d.name+"/back", func(t *testing.T) {
			back := d.start(t, db.run, strides, "--forward-mode=macswap")
			gen := d.start(t, da.run, "", "--forward-mode=flowgen")
			gen.has("RX-packets", frames)
			gen.finish()
			back.has("TX-packets", frames)
			back.finish()
		})
		for name, devargs := range map[string]string{"frames": "", "strides": strides, "verbs": verbs} {
			t.Run(d.name+"/four queues/"+name, func(t *testing.T) {
				rx := d.start(t, db.run, devargs, "--forward-mode=rxonly", "--rxq=4", "--txq=4", "--rss-udp")
				tx := d.start(t, da.run, "", "--forward-mode=txonly", "--txonly-multi-flow")
				rx.has("RX-packets", frames)
				tx.finish()
				out := rx.finish()
				for i := range 4 {
					_, of, found := strings.Cut(out, fmt.Sprintf("RX Port= 0/Queue= %d ", i))
					var n int
					if _, of, _ = strings.Cut(of, "RX-packets:"); found {
						fmt.Sscan(of, &n) //nolint:errcheck // 0 then
					}
					if n < frames/40 {
						t.Errorf("queue %d has received %d frames:\n%s", i, n, out)
					}
				}
			})
		}
		t.Run(d.name+"/flags", func(t *testing.T) { dpdkFlags(t, d, db.run, a, strides) })
		for name, devargs := range map[string]string{"rules": "", "rules by verbs": verbs} {
			t.Run(d.name+"/"+name, func(t *testing.T) { dpdkRules(t, d, db.run, a, devargs) })
		}
	}
}

// watched is a testpmd that says each frame which it receives.
type watched struct {
	*proc
	stop string // the file that ends it
	from *host
}

func (d dpdk) watch(t *testing.T, run launch, from *host, devargs, commands string, options ...string) *watched {
	t.Helper()
	stop := filepath.Join(must.Get[string](t)(os.MkdirTemp(scratch, "dpdk-")), "stop")
	script := `(printf "$2"; while [ ! -e "$1" ]; do sleep 0.1; done; printf 'stop\nquit\n') |
		{ shift 2; stdbuf -oL "$@"; }`
	argv := append([]string{"sh", "-c", script, "sh", d.path(stop), "set fwd rxonly\nset verbose 1\n" + commands + "start\n", "dpdk-testpmd"}, d.common...)
	argv = append(argv, "-a", dpdkDevice+devargs, "--", "-i", "--total-num-mbufs=16384", "--rxd=256", "--txd=256")
	p := &watched{run(t, d.argv(append(argv, options...)...)...), stop, from}
	if !until(programLimit, func() bool { return p.ended() || strings.Contains(p.out.String(), "rxonly packet forwarding - ") }) {
		t.Fatalf("testpmd does not begin:\n%s", p.out.String())
	}
	return p
}

// send sends a frame, and returns what testpmd says of it: a frame of a length from 02:…:77.
func (p *watched) send(frame []byte, length int) string {
	p.t.Helper()
	must.OK(p.t, p.from.net.Do(func() error { return sendRaw("eth0", frame) }))
	line := regexp.MustCompile(fmt.Sprintf(`src=02:00:00:00:00:77 [^\n]* length=%d [^\n]*\n[^\n]*ol_flags: ([^\n]*)\n`, length))
	var got []string
	if !until(programLimit, func() bool { got = line.FindStringSubmatch(p.out.String()); return got != nil || p.ended() }) || got == nil {
		p.t.Fatalf("the frame of %d bytes does not come:\n%s", length, p.out.String())
	}
	return got[0]
}

func (p *watched) finish() string {
	p.t.Helper()
	must.OK(p.t, os.WriteFile(p.stop, nil, 0o644))
	return p.ok()
}

// udpFrame is a frame of n bytes with right checksums.
func udpFrame(n int, port byte, change func([]byte)) []byte {
	b := make([]byte, n)
	copy(b, "\x02\x00\x00\x00\x00\x99\x02\x00\x00\x00\x00\x77\x08\x00\x45")
	b[16], b[17] = byte((n-14)>>8), byte(n-14)
	copy(b[22:], "\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00")
	b[37], b[38], b[39] = port, byte((n-34)>>8), byte(n-34)
	f := ether.Parse(b)
	f.SetSums(true, true)
	change(b)
	return b
}

// dpdkFlags: what testpmd says of frames whose checksums are right or wrong, and of a VLAN tag.
func dpdkFlags(t *testing.T, d dpdk, run launch, from *host, devargs string) {
	const good4, good3 = "RTE_MBUF_F_RX_L4_CKSUM_GOOD", "RTE_MBUF_F_RX_IP_CKSUM_GOOD"
	const no4, no3, vlan = "RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN", "RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN", "RTE_MBUF_F_RX_VLAN_STRIPPED"
	tagged := ether.AppendVLAN(nil, udpFrame(103, 2, func([]byte) {}), 5)
	for _, strip := range []bool{false, true} {
		options, length, stripped := []string{"--enable-rx-cksum"}, 107, ""
		if strip {
			options, length, stripped = append(options, "--enable-hw-vlan-strip"), 103, vlan
		}
		p := d.watch(t, run, from, devargs, "", options...)
		for _, c := range []struct {
			frame  []byte
			length int
			flags  []string
		}{
			{udpFrame(100, 2, func([]byte) {}), 100, []string{good3, good4}},
			{udpFrame(101, 2, func(b []byte) { b[24]++ }), 101, []string{no3, good4}},
			{udpFrame(102, 2, func(b []byte) { b[50]++ }), 102, []string{good3, no4}},
			{tagged, length, []string{good3, good4, stripped}},
		} {
			got := p.send(c.frame, c.length)
			for _, flag := range c.flags {
				if !strings.Contains(got, flag) {
					t.Errorf("strip %t, %d bytes: %s, want %s", strip, c.length, got, flag)
				}
			}
			if strings.Contains(got, vlan) != (strip && c.length == length) {
				t.Errorf("strip %t, %d bytes: %s", strip, c.length, got)
			}
		}
		p.finish()
	}
}

// dpdkRules: rules of rte_flow choose a queue, mark frames, drop them, and end.
func dpdkRules(t *testing.T, d dpdk, run launch, from *host, devargs string) {
	const rule = `flow create 0 ingress pattern eth / ipv4 dst is 10.0.0.2 / udp dst is %d / end actions %s / end\n`
	commands := fmt.Sprintf(rule, 11, "mark id 7 / queue index 1") + fmt.Sprintf(rule, 12, "drop") +
		fmt.Sprintf(rule, 13, "queue index 2") + fmt.Sprintf(rule, 14, "drop") +
		fmt.Sprintf(rule, 15, "mark id 8 / rss queues 1 2 end") + `flow destroy 0 rule 3\nflow list 0\n`
	p := d.watch(t, run, from, devargs, commands, "--rxq=4", "--txq=4")
	frame := func(n int, port byte) []byte { return udpFrame(n, port, func([]byte) {}) }
	must.OK(t, from.net.Do(func() error { return sendRaw("eth0", frame(112, 12)) }))
	for port, want := range map[byte][]string{11: {"Receive queue=0x1", "FDIR matched ID=0x7"}, 13: {"Receive queue=0x2"}, 14: nil, 15: {"FDIR matched ID=0x8"}} {
		got := p.send(frame(100+int(port), port), 100+int(port))
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("port %d: %s, want %s", port, got, text)
			}
		}
	}
	if out := p.finish(); strings.Contains(out, "length=112 ") {
		t.Errorf("a frame is not dropped:\n%s", out)
	}
}

// sendRaw sends a frame by an interface.
func sendRaw(name string, frame []byte) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is lost
	req, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req); err != nil {
		return err
	}
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: int(req.Uint32())})
}
