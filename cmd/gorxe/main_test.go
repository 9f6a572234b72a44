package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// gorxe runs one command line.
func gorxe(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	ctx := func() (context.Context, error) { return t.Context(), nil }
	code = run(ctx, args, streams{out: &out, err: &err})
	return code, out.String(), err.String()
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		args   []string
		code   int
		stdout string // a part of it; empty: nothing is printed there
		stderr string // a part of it; empty: nothing is printed there
	}{
		{[]string{"--help"}, exitOK, "gorxe run -- ib_write_bw", ""},
		{[]string{"-h"}, exitOK, "Commands:", ""},
		{[]string{"demo", "--help"}, exitOK, "--no-pcap", ""},
		{[]string{"devices", "--help"}, exitOK, "gorxe devices --json", ""},
		{[]string{"version"}, exitOK, "gorxe ", ""},
		{[]string{"--version"}, exitOK, "gorxe ", ""},
		{[]string{"-V"}, exitOK, "gorxe ", ""},
		{[]string{"explain", "12"}, exitOK, "IBV_WC_RETRY_EXC_ERR, completion status 12", ""},
		{[]string{"explain", "22"}, exitOK, "EINVAL, errno 22", ""},
		{[]string{"explain", "-12"}, exitOK, "ENOMEM, errno 12", ""},
		{[]string{"explain", "RDMA_CM_EVENT_REJECTED"}, exitOK, "reject reason: 8 if nothing", ""},
		{[]string{"explain", "8"}, exitOK, "Nothing listens at that port", ""},
		{[]string{"explain", "error", "8"}, exitOK, "Nothing listens at that port", ""},
		{[]string{"explain", "Function not implemented"}, exitOK, "Start the program with gorxe run.", ""},
		{[]string{"explain", "create_qp", "EINVAL"}, exitOK, "EINVAL, errno 22", ""},
		{[]string{"explain", "foo"}, exitUsage, "", "or the line that the program printed"},
		{[]string{"explain", "IBV_WC_SUCESS"}, exitUsage, "", "did you mean IBV_WC_SUCCESS?"},
		{[]string{"explain", "--socket", "/no/such/socket"}, exitFailed, "", "gorxe explain 12"},
		{[]string{"explain", "ECONNREFUSED"}, exitOK, "ECONNREFUSED, errno 111", ""},
		{[]string{"run", "--no-such-flag"}, exitUsage, "", "unknown flag --no-such-flag"},
		{[]string{"pcap", "chek"}, exitUsage, "", "Run 'gorxe pcap --help' for usage."},
		{[]string{"pair", "true"}, exitUsage, "", "gorxe pair SERVER... -- CLIENT..."},
		{[]string{"pair", "--", "true", "--"}, exitUsage, "", "gorxe pair SERVER... -- CLIENT..."},
		{[]string{"pair", "--timeout", "0s", "true", "--", "true"}, exitUsage, "", "--timeout"},
		{[]string{"pair", "--device", "eth0=lo", "true", "--", "true"}, exitUsage, "", `must begin with "rxe"`},
		{[]string{"pair", "--hosts", "--device", "rxe0=lo", "true", "--", "true"}, exitUsage, "", "--hosts has one device"},
		{[]string{"pair", "--help"}, exitOK, "gorxe pair --hosts", ""},
		{nil, exitUsage, "", `expected one of "run", "pair", "lab", "daemon", "fault"`},
		{[]string{"walk"}, exitUsage, "", "unexpected argument walk"},
		{[]string{"pcap", "x.pcapng"}, exitUsage, "", "unexpected argument x.pcapng: gorxe pcap has the commands check, show, export, replay\n"},
		{[]string{"doctor", "--x"}, exitUsage, "", "gorxe: unknown flag --x\nRun"},
		{[]string{"run", "--pcap", "ls", "-la"}, exitUsage, "", "--pcap took ls as its value: give it one, as in --pcap FILE -- ls\n"},
		{[]string{"run", "--verdict", "ls"}, exitUsage, "", "no program is given: --verdict took ls as its value: give it one, as in --verdict DIR -- ls\n"},
		{[]string{"run", "--verdict-on-failure", "ls"}, exitUsage, "", "--verdict-on-failure took ls"},
		{[]string{"run", "--pcap", "ls"}, exitUsage, "", "--pcap took ls"},
		{[]string{"run", "-d", "rxe0", "ls"}, exitUsage, "", "unknown flag -d: see gorxe run --help; did you mean --device?\n"},
		{[]string{"run", "-g", "1", "ls"}, exitUsage, "", "unknown flag -g: see gorxe run --help; the flags of ls go after its name\n"},
		{[]string{"run", "-g", "1", "--", "ls"}, exitUsage, "", "unknown flag -g: see gorxe run --help; a program of that name goes after --\n"},
		{[]string{"run", "--fault", "ls"}, exitUsage, "", "no program is given: --fault took ls as its value: give it one, as in --fault RULE -- ls\n"},
		{[]string{"run", "--fault", "ls", "x"}, exitUsage, "", "a rule begins with packet, verb, completion, peer, port, device or limits. --fault took ls"},
		{[]string{"run", "--fault", "packet", "drop,p=1%", "ls"}, exitUsage, "", "it needs quotes: --fault 'packet drop,p=1%'\n"},
		{[]string{"run", "--fault", "packet", "ls"}, exitUsage, "", "say what happens: drop"},
		{[]string{"run", "--pcap"}, exitUsage, "", "gorxe: --pcap needs a value\nRun 'gorxe run --help'"},
		{[]string{"run", "--device", "ls", "-l"}, exitUsage, "", "--device took ls"},
		{[]string{"run", "--device", "lo", "true"}, exitUsage, "", "did you mean --device rxe0=lo?\n"},
		{[]string{"run", "--device", "192.0.2.1", "true"}, exitUsage, "", "did you mean --device rxe0=192.0.2.1?\n"},
		{[]string{"pair", "--pcap", "ls", "-l", "--", "ls"}, exitUsage, "", "unknown flag -l: see gorxe pair --help; --pcap took ls as its value: give it one, as in --pcap FILE -- ls\n"},
		{[]string{"pair", "--verdict", "ls", "--", "ls"}, exitUsage, "", "(see --help); --verdict took ls"},
		{[]string{"pair", "--fault", "ls", "-l", "--", "ls"}, exitUsage, "", "--fault took ls"},
		{[]string{"pair", "-g", "1", "ls", "--", "ls"}, exitUsage, "", "unknown flag -g: see gorxe pair --help; the flags of ls go after its name\n"},
		{[]string{"pair", "--fault", "packet", "drop,p=1%", "ls", "--", "ls"}, exitUsage, "", "it needs quotes: --fault 'packet drop,p=1%'\n"},
		{[]string{"pair", "ls", "--", "--pcap", "x", "ls"}, exitUsage, "", "the client's command begins with --pcap: flags of gorxe go directly after gorxe pair\n"},
		{[]string{"ls"}, exitUsage, "", "unexpected argument ls, did you mean gorxe run ls?\n"},
		{[]string{"run", "--", "ls -l"}, 127, "", "the name has a space: write the arguments without quotes around all of them: ls -l\n"},
		{[]string{"help", "ci"}, exitOK, "Until then, name a", ""},
		{[]string{"run", "--help"}, exitOK, "gorxe run -- ibv_rc_pingpong", ""},
		{[]string{"daemon", "--help"}, exitOK, "--socket-group rdma", ""},
		{[]string{"status", "--help"}, exitOK, "gorxe status --watch", ""},
		{[]string{"run", "--device", "eth0=lo", "true"}, exitUsage, "", `must begin with "rxe"`},
		{[]string{"run", "--device", "rxe0", "true"}, exitUsage, "", "NAME=INTERFACE"},
		{[]string{"run", "--log-level", "loud", "true"}, exitUsage, "", "--log-level"},
		{[]string{"run", "--doorbells", "loud", "true"}, exitUsage, "", "--doorbells"},
		{[]string{"run", "--lgo-level", "info", "true"}, exitUsage, "", "unknown flag --lgo-level"},
		{[]string{"run", "--", "--gorxe-no-such-program"}, 127, "", "--gorxe-no-such-program"},
		{[]string{"run", "--", "gorxe-no-such-program"}, 127, "", "gorxe-no-such-program"},
		{[]string{"run", "/etc/passwd", "--help"}, 126, "", "/etc/passwd"},
		{[]string{"run", "--speed", "1", "true"}, exitUsage, "", "--speed: 1 Gb/s is no rate of a port: choose one of 2.5, 5, 10"},
		{[]string{"daemon", "--speed", "fast"}, exitUsage, "", `--speed: "fast" is not a number of Gb/s`},
		{[]string{"run", "--device", "rxe0=lo,speed=3", "true"}, exitUsage, "", `"rxe0=lo,speed=3": 3 Gb/s is no rate`},
		{[]string{"daemon", "--device", "eth0=lo"}, exitUsage, "", `must begin with "rxe"`},
		{[]string{"daemon", "--group", "rdma"}, exitUsage, "", `unknown flag --group, did you mean "--socket-group"?`},
		{[]string{"daemon", "--socket-mode", "888"}, exitUsage, "", "octal"},
		{[]string{"daemon", "--user-memory", "4T"}, exitUsage, "", "--user-memory"},
		{[]string{"daemon", "--user-memory", "4G", "now"}, exitUsage, "", "unexpected argument now"},
		{[]string{"daemon", "now"}, exitUsage, "", "unexpected argument now"},
		{[]string{"status", "--socket", "/no/such/socket"}, exitFailed, "", "gorxe daemon"},
		{[]string{"status", "--watch", "--interval", "0s"}, exitUsage, "", "--interval"},
		{[]string{"devices", "--yaml"}, exitUsage, "", "unknown flag --yaml"},
		{[]string{"devices", "eth0"}, exitUsage, "", "unexpected argument eth0"},
		{[]string{"devices", "--help"}, exitOK, "gorxe devices --as-seen --device rxe0=lo --speed 100", ""},
		{[]string{"devices", "--device", "rxe0=lo"}, exitUsage, "", "add --as-seen"},
		{[]string{"devices", "--socket", "/no/such/socket"}, exitUsage, "", "add --as-seen"},
		{[]string{"devices", "--as-seen", "--device", "mlx4_0=lo"}, exitUsage, "", `must begin with "rxe"`},
		{[]string{"devices", "--as-seen", "--like", "bluefield3"}, exitOK, "MT41692", ""},
		{[]string{"devices", "--as-seen", "--like", "connectx6+no-uc"}, exitOK, "connectx6+no-uc", ""},
		{[]string{"devices", "--as-seen", "--like", "connectx7-400g"}, exitOK, "connectx7-400g+gids-move", ""},
		{[]string{"run", "--like", "connectx6+no-ud", "true"}, exitUsage, "", `--like: connectx6: "no-ud" is no quirk: choose one of no-uc, uc, reset-einval`},
		{[]string{"run", "--device", "mlx5_0=lo,like=connectx6+uc+no-uc", "true"}, exitUsage, "", `connectx6: "no-uc" contradicts "uc"`},
		{[]string{"run", "--like", "connectx4", "true"}, exitUsage, "", `--like: "connectx4" is no profile: choose one of connectx5, connectx6, connectx6dx, connectx7-200g, connectx7-400g, bluefield3`},
		{[]string{"daemon", "--device", "rxe0=lo", "--like", "connectx6"}, exitUsage, "", "--like connectx6: invalid device: no device has the name of a ConnectX"},
		{[]string{"run", "--like", "connectx5", "--speed", "400", "true"}, exitUsage, "", "--like connectx5: invalid device: speed=400: a port of connectx5 has no such speed"},
		{[]string{"pair", "--hosts", "--like", "connectx6", "--speed", "100", "true", "--", "true"}, exitUsage, "", "--hosts has one device, rxe0 or with --like mlx5_0"},
		{[]string{"devices", "--as-seen", "--device", "rxe0=nosuch0"}, exitFailed, "", "interface nosuch0"},
		{[]string{"devices", "--as-seen", "--device", "rxe0=192.0.2.77"}, exitFailed, "", "address 192.0.2.77"},
		{[]string{"devices", "--as-seen", "--socket", "/no/such/socket"}, exitFailed, "", "/no/such/socket"},
		{[]string{"devices", "--as-seen", "--devices", "2", "--speed", "100"}, exitOK, "gid 1             0000:0000:0000:0000:0000:ffff:7f00:0002 RoCE v2 lo", ""},
		{[]string{"pcap", "--help"}, exitOK, "gorxe pcap check run.pcapng", ""},
		{[]string{"pcap", "check", "--help"}, exitOK, "--junit", ""},
		{[]string{"pcap", "check", "--rules"}, exitOK, "read-response-range", ""},
		{[]string{"pcap", "check"}, exitUsage, "", "no capture file"},
		{[]string{"pcap", "check", "--ignore", "nothing", "x"}, exitUsage, "", `no rule is named "nothing"`},
		{[]string{"pcap", "check", "--max", "-1", "x"}, exitUsage, "", "--max"},
		{[]string{"pcap", "check", "/no/such/file"}, exitFailed, "", "gorxe: open /no/such/file: no such file"},
		{[]string{"pcap", "check", "main_test.go"}, exitFailed, "", "gorxe: main_test.go: not a pcap or pcapng file"},
		{[]string{"pcap", "check", "../../testdata/pcaps/rping.pcap"}, exitOK, "65 packets, 4 flows: 0 violations", ""},
		{[]string{"pcap", "check", "../../testdata/pcaps/netem_corrupt2.pcap"}, exitFailed, "2 flows: 373 retransmissions, 6 timeouts, 8 NAKs (PSN sequence error), 6 gaps in the PSNs; 26 violations", ""},
		{[]string{"pcap", "check", "--wide", "../../testdata/pcaps/rping.pcap"}, exitOK, "RESENT  TIMEOUTS", ""},
		{[]string{"pcap", "check", "--ignore", "icrc", "../../testdata/pcaps/netem_corrupt2.pcap"}, exitOK, "0 violations", ""},
		{[]string{"demo", "--size", "12parsecs"}, exitUsage, "", "--size"},
		{[]string{"demo", "--size", "0"}, exitUsage, "", "size 0"},
		{[]string{"demo", "--duration", "-1s"}, exitUsage, "", "duration"},
		{[]string{"demo", "--addresses", "127.0.0.1"}, exitUsage, "", "two addresses"},
		{[]string{"demo", "--addresses", "here,there"}, exitUsage, "", "--addresses"},
		{[]string{"pcap", "show", "--help"}, exitOK, "gorxe pcap show --ladder", ""},
		{[]string{"pcap", "show"}, exitUsage, "", "<file>"},
		{[]string{"pcap", "show", "--html", "x.pcapng"}, exitUsage, "", `expected "<file>": --html took x.pcapng as its value` + "\n"},
		{[]string{"pcap", "show", "--qp", "0x11x", "x"}, exitUsage, "", "queue pair number"},
		{[]string{"pcap", "show", "--limit", "-1", "x"}, exitUsage, "", "--limit"},
		{[]string{"pcap", "show", "-v", "--ladder", "x"}, exitUsage, "", "-v is for lines"},
		{[]string{"pcap", "show", "/no/such/file"}, exitFailed, "", "/no/such/file"},
		{[]string{"pcap", "show", "main_test.go"}, exitFailed, "", "not a pcap or pcapng file"},
		{[]string{"pcap", "show", "../../testdata/pcaps/rping.pcap"}, exitOK, "RC SEND_ONLY qp 0x000020 psn 0x2b19a2 A  16 B", ""},
		{[]string{"pcap", "show", "--limit", "3", "../../testdata/pcaps/rping.pcap"}, exitOK, "left out because of --limit: 62 packets\n", ""},
		{[]string{"pcap", "show", "--ladder", "--qp", "32", "../../testdata/pcaps/rping.pcap"}, exitOK, "1. RC 10.77.0.1 qp 0x000020 ↔ 10.77.0.2 qp 0x000020: 60 packets", ""},
		{[]string{"pcap", "show", "--html", "-", "../../testdata/pcaps/rping.pcap"}, exitOK, "<title>rping.pcap", ""},
		{[]string{"pcap", "show", "--html", "/no/such/dir/x", "../../testdata/pcaps/rping.pcap"}, exitFailed, "", "/no/such/dir/x"},
		{[]string{"pcap", "export", "--perfetto", "-", "../../testdata/pcaps/rping.pcap"}, exitOK, `"name":"CM REQ`, ""},
		{[]string{"pcap", "export", "../../testdata/pcaps/rping.pcap"}, exitUsage, "", "--perfetto"},
		{[]string{"pcap", "export", "--perfetto", "-", "main_test.go"}, exitFailed, "", "not a pcap"},
		{[]string{"pcap", "replay", "--help"}, exitOK, "gorxe pcap replay run.pcapng", ""},
		{[]string{"pcap", "replay"}, exitUsage, "", "<file>"},
		{[]string{"pcap", "replay", "/no/such/file"}, exitFailed, "", "/no/such/file"},
		{[]string{"pcap", "replay", "main_test.go"}, exitFailed, "", "not a pcap or pcapng file"},
		{[]string{"pcap", "replay", "../../testdata/pcaps/rping.pcap"}, exitOK, "8 sessions, 75 packets and requests played, 70 packets compared: equal", ""},
		{[]string{"pcap", "replay", "../../testdata/pcaps/interop-not-ready.pcap"}, exitOK, "Linux sends one sequence NAK", ""},
		{[]string{"pcap", "replay", "--json", "../../testdata/pcaps/rping.pcap"}, exitOK, `"role": "responder"`, ""},
		{[]string{"demo", "--pcap", "x", "--no-pcap"}, exitUsage, "", "--no-pcap"},
		{[]string{"demo", "--no-pcap", "--addresses", "192.0.2.77,192.0.2.78"}, exitFailed, "Two RoCEv2 devices", "192.0.2.77"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := gorxe(t, tt.args...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, s := range []struct{ name, got, want string }{
				{"stdout", stdout, tt.stdout}, {"stderr", stderr, tt.stderr},
			} {
				if !strings.Contains(s.got, s.want) || s.want == "" && s.got != "" {
					t.Errorf("%s is %q, want %q in it", s.name, s.got, s.want)
				}
			}
		})
	}
}

// TestCanceled: a user who ends a command is not told so.
func TestCanceled(t *testing.T) {
	var out, said bytes.Buffer
	ended := func() (context.Context, error) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx, nil
	}
	code := run(ended, []string{"demo", "--no-pcap", "--addresses", "127.83.65.1,127.83.65.2"}, streams{out: &out, err: &said})
	if code == exitOK || said.Len() > 0 {
		t.Errorf("exit code %d, standard error %q", code, said.String())
	}
}

// The loopback interface is the one device that every Linux host has.
func TestDevices(t *testing.T) {
	code, stdout, stderr := gorxe(t, "devices", "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var devices []deviceInfo
	if err := json.Unmarshal([]byte(stdout), &devices); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	_, table, _ := gorxe(t, "devices")
	var loopback bool
	for i, d := range devices {
		if want := fmt.Sprintf("rxe%d", i); d.Name != want {
			t.Errorf("device %d is %q, want %q", i, d.Name, want)
		}
		if len(d.GIDs) == 0 || d.ActiveMTU > d.MTU && d.ActiveMTU != 256 {
			t.Errorf("device %+v", d)
		}
		for _, g := range d.GIDs {
			addr, err := netip.ParseAddr(g.Address)
			if err != nil {
				t.Errorf("%s, GID %d: %v", d.Name, g.Index, err)
			}
			if gid, err := netip.ParseAddr(g.GID); err != nil || gid.Unmap() != addr {
				t.Errorf("%s, GID %d: %q is not %q", d.Name, g.Index, g.GID, g.Address)
			}
			loopback = loopback || addr.IsLoopback()
			if !strings.Contains(table, g.GID) {
				t.Errorf("the table lacks %s:\n%s", g.GID, table)
			}
		}
	}
	if !loopback {
		t.Errorf("no loopback address in\n%s", stdout)
	}
	// The devices that gorxe run has by default are told from those that it can have.
	for n, want := range map[int]string{1: "", 2: "gorxe run gives rxe0 alone, unless --device names others:\n  gorxe run --device rxe0=eth0 --device rxe1=lo PROGRAM\n"} {
		var b strings.Builder
		list := []deviceInfo{{Name: "rxe0", Interface: "eth0"}, {Name: "rxe1", Interface: "lo"}}
		if err := writeDefault(&b, list[:n]); err != nil || strings.TrimPrefix(b.String(), "\n") != want {
			t.Errorf("%d devices: %v, %s", n, err, b.String())
		}
	}
}

// TestDevicesAsSeen: what programs find is what the list says.
func TestDevicesAsSeen(t *testing.T) {
	code, stdout, stderr := gorxe(t, "devices", "--json")
	var devices []deviceInfo
	if err := json.Unmarshal([]byte(stdout), &devices); err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	for _, d := range devices {
		code, stdout, stderr = gorxe(t, "devices", "--as-seen", "--json", "--device", "rxe0="+d.Interface)
		if code != exitOK || stderr != "" {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		var seen []proto.Seen
		if err := json.Unmarshal([]byte(stdout), &seen); err != nil || len(seen) != 1 || len(seen[0].Ports) != 1 {
			t.Fatalf("%v in\n%s", err, stdout)
		}
		value := func(list []proto.Attribute, name string) string {
			for _, a := range list {
				if a.Name == name {
					return a.Value
				}
			}
			return "none"
		}
		port := seen[0].Ports[0]
		if guid := strings.ReplaceAll(value(seen[0].Attributes, "node_guid"), ":", ""); guid != d.NodeGUID {
			t.Errorf("%s: node GUID %s, the list has %s", d.Interface, guid, d.NodeGUID)
		}
		if rate := value(port.Attributes, "rate"); !strings.HasPrefix(rate, fmt.Sprint(d.SpeedGbps, " Gb/sec ")) {
			t.Errorf("%s: rate %s, the list has %v Gb/s", d.Interface, rate, d.SpeedGbps)
		}
		var gids []gidInfo
		for _, g := range port.GIDs {
			gids = append(gids, gidInfo{g.Index, g.GID, netip.MustParseAddr(g.GID).Unmap().String()})
			if g.Netdev != d.Interface || g.Type != "RoCE v2" {
				t.Errorf("%s: GID %+v", d.Interface, g)
			}
		}
		if !slices.Equal(gids, d.GIDs) {
			t.Errorf("%s: GIDs %+v, the list has %+v", d.Interface, gids, d.GIDs)
		}
	}
}

func TestWriteSeen(t *testing.T) {
	seen := []proto.Seen{{Name: "rxe0", Path: "/sys/d", Attributes: []proto.Attribute{{Name: "fw_ver"}, {Name: "lines", Value: "a\nb"}}}}
	seen[0].Node.Path, seen[0].Node.Number, seen[0].Node.Mode = "/dev/d", "1:2", "0666"
	seen[0].Parent.Path, seen[0].Parent.Subsystem, seen[0].Parent.Driver = "/sys/p", "platform", "gorxe"
	seen[0].Parent.Attributes = []proto.Attribute{{Name: "rate", Errno: "EINVAL"}, {Name: "class", Value: "0x020000"}}
	var out bytes.Buffer
	if err := writeSeen(&out, seen); err != nil {
		t.Fatal(err)
	}
	const want = `rxe0           /sys/d
  node         /dev/d 1:2, mode 0666
  fw_ver       ""
  lines        "a\nb"
  parent       /sys/p
    subsystem  platform
    driver     gorxe
    rate       (EINVAL)
    class      0x020000
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestTooFewFiles(t *testing.T) {
	var out strings.Builder
	complain(streams{err: &out}, fmt.Errorf("starting a daemon: %w", &fs.PathError{Op: "open", Path: "/dev/null", Err: syscall.EMFILE}))
	if text := out.String(); !strings.Contains(text, "ulimit -n") {
		t.Errorf("%q does not say what to do", text)
	}
}

func TestWriteTable(t *testing.T) {
	devices := []deviceInfo{
		{Name: "rxe0", Interface: "eth0", State: "PORT_ACTIVE", MTU: 1500, ActiveMTU: 1024, NodeGUID: "02", SpeedGbps: 2.5, GIDs: []gidInfo{
			{Index: 0, GID: "g0", Address: "fe80::1"},
			{Index: 3, GID: "g3", Address: "192.0.2.1"},
		}},
		{Name: "rxe1", Interface: "lo", State: "PORT_DOWN", MTU: 65536, ActiveMTU: 4096, NodeGUID: "06", SpeedGbps: 40, GIDs: []gidInfo{
			{Index: 1, GID: "g1", Address: "127.0.0.1"},
		}},
	}
	const want = `DEVICE  INTERFACE  PORT STATE   SPEED     MTU    ACTIVE MTU  NODE GUID
rxe0    eth0       PORT_ACTIVE  2.5 Gb/s  1500   1024        02
rxe1    lo         PORT_DOWN    40 Gb/s   65536  4096        06

DEVICE  INDEX  ADDRESS    GID
rxe0    0      fe80::1    g0
rxe0    3      192.0.2.1  g3
rxe1    1      127.0.0.1  g1
`
	var out bytes.Buffer
	if err := writeTable(&out, devices); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestWriteStatus(t *testing.T) {
	ecn, err := proto.ParseECN("on")
	if err != nil {
		t.Fatal(err)
	}
	st := &proto.Status{PID: 7, Socket: "/run/gorxe.sock", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Hidden: 2,
		Devices: []proto.DeviceStatus{{Name: "rxe0", ECN: ecn, Ports: []proto.PortStatus{{
			Number: 1, Interface: "lo", State: "PORT_ACTIVE", MTU: 65536, ActiveMTU: 4096, SpeedGbps: 2.5,
			GIDs: []proto.GIDStatus{{Index: 0, GID: "g0"}, {Index: 2, GID: "0000:0000:0000:0000:0000:ffff:0a00:0001"}},
		}}}},
		Sessions: []proto.SessionStatus{
			{ID: 1, UID: 3999999, Command: []string{"sleep", "\x1b[2J"}},
			{ID: 2, UID: 3999999, Processes: []proto.ProcessStatus{{PID: 11, Name: "prog", Files: []proto.FileStatus{{
				Device: "rxe0", Doorbells: proto.DoorbellStatus{How: "trapped", Why: "--doorbells=trapped, or a fault rule for post_send"}, PDs: 1, MRs: []proto.MRStatus{{Length: 4096}}, LeftOut: proto.LeftOut{MRs: 1}, MRBytes: 4097, CQs: make([]proto.CQStatus, 2),
				QPs: []proto.QPStatus{
					{QPN: 0x11, Type: "RC", State: "RTS", SendQueue: 3, RateMbps: 99.6, Peer: &proto.PeerStatus{GID: "0000:0000:0000:0000:0000:ffff:0a00:0002", QPN: 0x12, MTU: 1024},
						Counters: map[string]uint64{"b": 2, "a": 1, "zero": 0, "long": 1111111111111111111, "long2": 1111111111111111111, "long3": 1}},
					{QPN: 0x13, Type: "UD", State: "INIT"},
				},
			}}}}, CMIDs: []proto.CMIDStatus{
				{PID: 11, ID: 0, Space: "TCP", State: "LISTEN", Local: "0.0.0.0:7174"},
				{PID: 11, ID: 1, Space: "TCP", State: "CONNECT", Device: "rxe0", Local: "10.0.0.1:7174", Remote: "10.0.0.2:40000"},
			}, CMIDsLeftOut: 3},
		}}
	const want = `daemon, process 7 at /run/gorxe.sock, since 2026-01-02 03:04:05

DEVICE  PORT  STATE        INTERFACE  MTU    ACTIVE MTU  SPEED     CONGESTION
rxe0    1     PORT_ACTIVE  lo         65536  4096        2.5 Gb/s  on

DEVICE  CONGESTION
rxe0    on: min_time_between_cnps=50µs cnp_dscp=48 dce_tcp_rtt=55µs
rxe0    dce_tcp_g=1020/1024 rpg_time_reset=55µs rpg_byte_reset=10000000B
rxe0    rpg_threshold=5 rpg_ai_rate=40Mb/s rpg_hai_rate=400Mb/s
rxe0    rpg_min_rate=100Mb/s

DEVICE  PORT  INDEX  GID
rxe0    1     0      g0
rxe0    1     2      ::ffff:10.0.0.1

SESSION  USER     PROCESS  NAME        DEVICE  PDS  MRS  MEMORY  CQS  SRQS  QPS
1        3999999  -        sleep ?[2J  -       -    -    -       -    -     -
2        3999999  11       prog        rxe0    1    2    4.0k    2    0     2

PROCESS  DEVICE  DOORBELLS
11       rxe0    trapped: --doorbells=trapped, or a fault rule for
                 post_send

PROCESS  DEVICE  QPN       TYPE  STATE  PEER QPN  PEER      MTU   QUEUED  MBIT/S
11       rxe0    0x000011  RC    RTS    0x000012  10.0.0.2  1024  3       100
11       rxe0    0x000013  UD    INIT   -         -         -     0       -

PROCESS  QPN       COUNTERS
11       0x000011  a=1 b=2 long=1111111111111111111 long2=1111111111111111111
                   long3=1

PROCESS  DEVICE  CM ID  SPACE  STATE    LOCAL          REMOTE
11       -       0      TCP    LISTEN   0.0.0.0:7174   -
11       rxe0    1      TCP    CONNECT  10.0.0.1:7174  10.0.0.2:40000

Session 2: not shown: 3 CM ids

Sessions of other users: 2
`
	var out bytes.Buffer
	if err := writeStatus(&out, st, true, false); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	checkWidth(t, out.String())
	out.Reset()
	if err := writeStatus(&out, st, false, false); err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(want, "DEVICE  CONGESTION\n")
	_, after, _ := strings.Cut(rest, "\n\n")
	if out.String() != before+after {
		t.Errorf("without --congestion, got\n%s\nwant\n%s", &out, before+after)
	}
}

// checkWidth: the text is readable on a terminal of 80 columns. A word that is longer may stand
// alone.
func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 && len(strings.Fields(line)) > 1 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestDemo(t *testing.T) {
	// Two addresses that no other process uses at the same time.
	pid := os.Getpid()
	addrs := fmt.Sprintf("127.61.%d.%d,127.62.%[1]d.%[2]d", pid>>8&0xff, pid&0xff)
	capture := filepath.Join(t.TempDir(), "demo.pcapng")
	code, stdout, stderr := gorxe(t, "demo", "--addresses", addrs, "--duration", "1ms", "--size", "4KiB", "--pcap", capture)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("escape sequences where there is no terminal:\n%q", stdout)
	}
	if !strings.Contains(stdout, "4 KiB") || !strings.Contains(stdout, capture) {
		t.Errorf("printed\n%s", stdout)
	}
	if info, err := os.Stat(capture); err != nil || info.Size() == 0 {
		t.Errorf("capture: %v, %v", info, err)
	}
	code, stdout, stderr = gorxe(t, "pcap", "check", capture)
	if code != exitOK || !strings.Contains(stdout, "2 flows: 0 violations, 0 warnings, 0 notes") {
		t.Errorf("pcap check: exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		text string
		want size // 0: refused
	}{
		{"1", 1}, {"65536", 65536}, {"2B", 2}, {"64K", 64 << 10}, {"64KiB", 64 << 10}, {"64kib", 64 << 10},
		{"8M", 8 << 20}, {"8MiB", 8 << 20}, {"2047M", 2047 << 20}, {"4G", 4 << 30}, {"1GiB", 1 << 30},
		{"", 0}, {"K", 0}, {"-1", 0}, {"1.5M", 0}, {"1KB", 0}, {"1T", 0}, {"9999999999G", 0}, {"99999999999999999999", 0},
	}
	for _, tt := range tests {
		var s size
		err := s.UnmarshalText([]byte(tt.text))
		if (err == nil) != (tt.want != 0) || err == nil && s != tt.want {
			t.Errorf("%q is %d, %v; want %d", tt.text, s, err, tt.want)
		}
	}
}
