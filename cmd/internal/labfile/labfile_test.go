package labfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/test/must"
)

// summary is a lab as text.
func summary(l *Lab) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: switches %v\n", l.Name, l.Switches)
	for i := range l.Hosts {
		h := &l.Hosts[i]
		fmt.Fprintf(&b, "%s %q env %v after %v ready %v background %v:", h.Name, h.Command, h.Env, h.WaitFor, h.ReadyWhen, h.Background)
		for _, p := range h.Ports {
			fmt.Fprintf(&b, " %s=%s %v", p.Device, p.Interface, p.Address)
		}
		b.WriteString("\n")
	}
	for _, k := range l.Links {
		fmt.Fprintf(&b, "%v - %v mtu %d %s\n", k.Ends[0], k.Ends[1], k.MTU, k.Shape)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"hosts at a switch, and a link between two", `
name: three
topology:
  defaults: {env: {A: "1"}}
  nodes:
    server: {kind: linux, cmd: "./server --fast", ready-when: "up", background: true}
    c[1-2]: {cmd: [./client, "{server}"], env: {B: x}, wait-for: [server]}
    leaf[1-2]: {kind: bridge}
  links:
    - {endpoints: ["server:eth1", leaf1], rate: 10gbit, latency: 5us, queue: 50, ecn: 20, loss: 0.1%}
    - endpoints: ["c[1-2]:eth1", "leaf2"]
    - endpoints: [leaf1, leaf2]
      mtu: 4500
    - endpoints: ["c1:p0", "c2:p0"]
`, `three: switches [leaf1 leaf2]
server ["sh" "-c" "./server --fast"] env [A=1] after [] ready up background true: rxe0=eth1 10.0.1.1/24
c1 ["./client" "{server}"] env [A=1 B=x] after [server] ready <nil> background false: rxe0=eth1 10.0.1.2/24 rxe1=p0 10.0.2.2/24
c2 ["./client" "{server}"] env [A=1 B=x] after [server] ready <nil> background false: rxe0=eth1 10.0.1.3/24 rxe1=p0 10.0.2.3/24
server:eth1 - leaf1 mtu 1500 rate=10gbit,latency=5us,queue=50,ecn=20,loss=0.1%
c1:eth1 - leaf2 mtu 1500 
c2:eth1 - leaf2 mtu 1500 
leaf1 - leaf2 mtu 4500 
c1:p0 - c2:p0 mtu 1500 
`},
		{"a file of containerlab", `
name: two
prefix: ""
mgmt: {network: custom}
topology:
  nodes:
    n1:
      kind: linux
      image: alpine:3
      exec:
        - ip link set eth1 up
        - ip addr add 192.168.0.1/30 dev eth1
    n2: {kind: linux, image: "alpine:3", exec: ["ip address add 192.168.0.2/30 dev eth1"], labels: {a: b}}
    br-1: {kind: bridge}
  links:
    - endpoints: ["n1:eth1", "n2:eth1"]
    - endpoints: ["n1:eth2", "br-1:eth7"]
`, `two: switches [br-1]
n1 [] env [] after [] ready <nil> background false: rxe0=eth1 192.168.0.1/30 rxe1=eth2 10.0.2.1/24
n2 [] env [] after [] ready <nil> background false: rxe0=eth1 192.168.0.2/30
n1:eth1 - n2:eth1 mtu 1500 
n1:eth2 - br-1 mtu 1500 
`},
	} {
		l, err := Parse([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := summary(l); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestRails: 32 hosts with 8 rails each need no more than a line for a rail.
func TestRails(t *testing.T) {
	text := "topology:\n  nodes: {'h[1-32]': {kind: linux}, 'rail[1-8]': {kind: bridge}}\n  links:\n"
	for i := 1; i <= 8; i++ {
		text += fmt.Sprintf("    - endpoints: ['h[1-32]:eth%d', rail%d]\n", i, i)
	}
	l, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if p := l.Hosts[31].Port("eth8"); len(l.Hosts) != 32 || len(l.Links) != 256 || p == nil || p.Device != "rxe7" || p.Address.String() != "10.0.8.32/24" {
		t.Errorf("%d hosts, %d links, %+v", len(l.Hosts), len(l.Links), p)
	}
}

// TestRanges: a range whose first number has leading zeros has names of one length.
func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"h[1-3]": "h1 h2 h3", "h[01-03]x": "h01x h02x h03x", "h[08-11]": "h08 h09 h10 h11", "h[0-2]": "h0 h1 h2", "h[099-101]": "h099 h100 h101", "h": "h",
	} {
		names, err := expand(new(yaml.Node), text)
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestContainerlab: the example for containerlab has eight planes of two leaves and a spine, and no
// program: entrypoint and cmd are those of the container.
func TestContainerlab(t *testing.T) {
	l, err := Parse(must.Get[[]byte](t)(os.ReadFile("../../../examples/labs/rails.clab.yml")))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Hosts) != 8 || len(l.Switches) != 3*8 || len(l.Links) != 8*(8+2) {
		t.Errorf("%d hosts, %d switches, %d links", len(l.Hosts), len(l.Switches), len(l.Links))
	}
	for i, h := range l.Hosts {
		if len(h.Ports) != 8 || h.Command != nil {
			t.Errorf("%s: %d ports, program %v", h.Name, len(h.Ports), h.Command)
		}
		for j, p := range h.Ports {
			if want := fmt.Sprintf("10.0.%d.%d/24", j+1, i+1); p.Address.String() != want {
				t.Errorf("%s:%s has %v, want %s", h.Name, p.Interface, p.Address, want)
			}
		}
	}
}

// TestExamples: the examples can be read, and so can the file that docs/lab.md shows.
func TestExamples(t *testing.T) {
	names := must.Get[[]string](t)(filepath.Glob("../../../examples/labs/*.yml"))
	if len(names) < 4 {
		t.Errorf("examples: %v", names)
	}
	for _, name := range append(names, "../../../docs/lab.md") {
		text := string(must.Get[[]byte](t)(os.ReadFile(name)))
		if _, after, found := strings.Cut(text, "```yaml\n"); found {
			text, _, _ = strings.Cut(after, "```")
		}
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nodes begins a file whose nodes are h1, h2, and the switches s1, s2 and s3. The links follow.
const nodes = "topology:\n  nodes: {h1: {}, h2: , s1: {kind: bridge}, s2: {kind: bridge}, s3: {kind: bridge}}\n  links:\n"

// linked is what follows the nodes of a file that has h1 and h2.
const linked = "\n  links: [{endpoints: ['h1:eth1', 'h2:eth1']}]\n"

var wrong = []struct{ text, says string }{
	{"", `1: the file is empty: a lab begins with "topology:"`},
	{"a: [", "1: did not find expected node content"},
	{"- a\n", "1:1: expected a lab with keys, and not a list"},
	{"name: x\n", "1:1: the lab has no key topology"},
	{"topologie: {}\n", "1:1: topologie: unknown: a lab has the keys mgmt, name, prefix, topology"},
	{"topology: {links: []}\n", "1:11: the topology has no key nodes"},
	{"topology: {nodes: {}}\n", "1:11: the topology has no key links"},
	{"topology: {nodes: {}, links: []}\n", "1:19: the lab has no host: one is a node of kind linux"},
	{"topology: {nodes: {a: {kind: bridge}}, links: []}\n", "1:19: the lab has no host: one is a node of kind linux"},
	{"topology:\n  nodes: {h1: {}, h1: {}}" + linked, "2:19: two nodes have the name h1"},
	{"topology:\n  nodes: {'h[1-2]': {}, h1: {}}" + linked, "2:25: two nodes have the name h1"},
	{"topology:\n  nodes: {'h[2-1]': {}}" + linked, "2:11: h[2-1]: the range ends before it begins"},
	{"topology:\n  nodes: {'h[1-2][1-2]': {}}" + linked, "2:11: h[1-2][1-2]: a name has one range"},
	{"topology:\n  nodes: {'h[1-10000]': {}}" + linked, "2:11: h[1-10000]: the range has 10000 names: a lab has 250 hosts and 4096 links at most"},
	{"topology:\n  nodes: {'h[1-251]': {}}" + linked, "2:11: the lab has more than 250 hosts"},
	{"topology:\n  nodes: {'s[1-251]': {kind: bridge}}" + linked, "2:11: the lab has more than 250 switches"},
	{"topology:\n  nodes: {../h: {}}" + linked, `2:11: "../h": a name has letters, digits, dots, underscores and dashes, 63 at most`},
	{"topology:\n  nodes: {h1: {kind: nokia_srlinux}}" + linked, `2:22: kind: "nokia_srlinux": a node is a host (linux) or a switch (bridge)`},
	{"topology:\n  nodes: {h1: {binds: [a]}}" + linked, "2:16: binds: unknown: a node has the keys background, cmd, cpu, cpu-set, entrypoint, env, exec, group, image, image-pull-policy, kind, labels, memory, mgmt-ipv4, mgmt-ipv6, ports, ready-when, restart-policy, wait-for"},
	{"topology:\n  defaults: {cmd: a}\n  nodes: {h1: {}, h2: {}, s1: {kind: bridge, labels: {}, cmd: a}}" + linked, "3:58: cmd: s1 is a switch (kind: bridge), which runs no program: the key is for hosts"},
	{"topology:\n  nodes: {h1: {}, h2: {}, s1: {wait-for: [h1], kind: bridge}}" + linked, "2:32: wait-for: s1 is a switch (kind: bridge), which runs no program: the key is for hosts"},
	{"topology:\n  nodes: {h1: {cmd: a, cmd: b}}" + linked, "2:24: cmd is given twice"},
	{"topology:\n  nodes: {h1: {cmd: []}}" + linked, "2:21: cmd: expected a list, and not an empty list"},
	{"topology:\n  nodes: {h1: {cmd: {}}}" + linked, "2:21: cmd: expected a list, and not a mapping"},
	{"topology:\n  nodes: {h1: {ready-when: '('}}" + linked, "2:28: ready-when: \"(\" is not a regular expression: error parsing regexp: missing closing ): `(`"},
	{"topology:\n  nodes: {h1: {background: 1}}" + linked, `2:28: background: expected true or false, and not "1"`},
	{"topology:\n  nodes: {h1: {env: {A: [1]}}}" + linked, "2:22: env: a variable has a name without an equals sign, and one value"},
	{"topology:\n  nodes: {h1: &a {}, h2: *a}" + linked, "2:26: expected a node with keys, and not an alias, which lab files do not have"},
	{"topology:\n  nodes: {h1: {exec: ['rm -r /']}}" + linked, `2:23: exec: "rm -r /": a lab executes only "ip addr add ADDRESS dev INTERFACE" there: cmd has the program of a host`},
	{"topology:\n  nodes: {h1: {exec: ['ip addr add 10.0.0.1/24 dev eth9']}, h2: {}}" + linked, "2:23: exec: h1 has no link at eth9"},
	{"topology:\n  nodes: {h1: {exec: ['ip addr add fe80::1/64 dev eth1']}, h2: {}}" + linked, `2:23: exec: "fe80::1/64" is not an IPv4 address with the length of its network, as 10.0.0.1/24`},
	{"topology:\n  nodes: {h1: {exec: ['ip addr add 10.0.1.2/24 dev eth1']}, h2: {}}" + linked, "2:61: h1:eth1 and h2:eth1 have the address 10.0.1.2"},
	{"topology:\n  nodes: {h1: {wait-for: [h2]}, h2: {wait-for: [h1]}}" + linked, "2:11: wait-for: h1, h2, h1: each waits for the next, and no one begins"},
	{"topology:\n  nodes: {h1: {wait-for: [h1]}, h2: {}}" + linked, "2:11: wait-for: h1, h1: each waits for the next, and no one begins"},
	{"topology:\n  nodes: {h1: {wait-for: [h3]}, h2: {}}" + linked, `2:11: wait-for: no host has the name "h3"`},
	{"topology:\n  nodes: {h1: {}, h2: {}, h3: {}}" + linked, "2:27: host h3 has no link"},
	{nodes + "    - endpoints: ['h1:eth1']\n", `4:7: a link has two endpoints, as in endpoints: ["h1:eth1", "leaf"]`},
	{nodes + "    - rate: 1gbit\n", `4:7: a link has two endpoints, as in endpoints: ["h1:eth1", "leaf"]`},
	{nodes + "    - endpoints: ['h1:eth1', 'h3:eth1']\n", `4:7: the link ends at "h3", and no node has this name`},
	{nodes + "    - endpoints: ['h1', 'h2:eth1']\n", `4:7: h1: an end at a host has an interface of 15 letters at most, as in "h1:eth1"`},
	{nodes + "    - endpoints: ['h1:lo', 'h2:eth1']\n", "4:7: h1:lo: Linux has the interface name lo for something else: choose another"},
	{nodes + "    - endpoints: ['h1:all', 'h2:eth1']\n", "4:7: h1:all: Linux has the interface name all for something else: choose another"},
	{nodes + "    - endpoints: ['h1:default', 'h2:eth1']\n", "4:7: h1:default: Linux has the interface name default for something else: choose another"},
	{nodes + "    - endpoints: ['h1:eth1', 'h1:eth2']\n", "4:7: the link joins h1 to itself"},
	{nodes + "    - endpoints: ['h1:eth1', s1]\n    - endpoints: ['h1:eth1', s2]\n", "5:7: two links end at h1:eth1"},
	{nodes + "    - endpoints: ['h1:eth[1-2]', s1]\n    - endpoints: ['h2:eth1', s1]\n", "2:11: eth1 and eth2 of h1 are in one network: give each a switch of its own"},
	{nodes + "    - endpoints: ['h[1-2]:eth1', s1]\n    - endpoints: [s1, s2]\n    - endpoints: [s2, s3]\n    - endpoints: [s3, s1]\n", "7:7: the switches s3 and s1 are joined already: this link makes a loop, in which packets would never end"},
	{nodes + "    - endpoints: ['h[1-2]:eth1', 's[1-3]']\n", "4:18: the endpoints are 2 and 3: give as many on both sides, or one on one side"},
	{nodes + "    - endpoints: ['h[1-2]:eth1', s1]\n    - {endpoints: [s1, s2], rate: 1gbit}\n", "5:7: a link between two switches has no rate, latency, queue, loss or ecn: give them to the links of hosts"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], rate: fast}\n", "4:42: rate: fast: give a rate from 1kbit to 1000gbit, as 1gbit or 2.5mbit"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], loss: 2}\n", "4:42: loss: 2: a probability is more than 0 and at most 1 (100%)"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], latency: [1ms]}\n", "4:45: latency: expected one value, and not a list"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], queue: 10}\n", "4:7: a link needs rate=…, latency=… or loss=…"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], latency: 1ms, ecn: 10}\n", "4:7: packets wait for the rate: give rate=… as well"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], rate: 1gbit, queue: 10, ecn: 10}\n", "4:7: the queue has 9 packets at most, so it never marks any"},
	{nodes + "    - {endpoints: ['h1:eth1', s1], mtu: 9999999}\n", `4:41: mtu: expected a number from 576 to 65535, and not "9999999"`},
	{nodes + "    - {endpoints: ['h1:eth1', s1], speed: 1}\n", "4:36: speed: unknown: a link has the keys ecn, endpoints, labels, latency, loss, mtu, queue, rate, vars"},
}

func TestWrong(t *testing.T) {
	for _, c := range wrong {
		_, err := Parse([]byte(c.text))
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.says {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.says)
		}
	}
	if _, err := Parse(make([]byte, MaxBytes+1)); err == nil {
		t.Error("a huge file is taken")
	}
}

// TestFillIn: only names of hosts in braces are replaced.
func TestFillIn(t *testing.T) {
	l, err := Parse([]byte(nodes + "    - endpoints: ['h[1-2]:eth1', s1]\n    - endpoints: ['h[1-2]:eth2', s2]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"ping {h2} {h2:eth2}!":       "ping 10.0.1.2 10.0.2.2!",
		"{h1}{h2}":                   "10.0.1.110.0.1.2",
		"${h1} {h3} {h1:eth9} { {h1": "${h1} {h3} {h1:eth9} { {h1",
		"{{h1}}":                     "{10.0.1.1}",
		"":                           "",
	} {
		if got := l.FillIn(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzParse: a lab is well or refused with a line. Each of its ports has a device and an address
// that no other has.
func FuzzParse(f *testing.F) {
	for _, c := range wrong {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(nodes + "    - {endpoints: ['h[1-2]:eth1', s1], rate: 1gbit}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Line < 1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		taken := make(map[string]bool)
		for i := range l.Hosts {
			h := &l.Hosts[i]
			if len(h.Ports) == 0 {
				t.Fatalf("%q: %s has no port", text, h.Name)
			}
			for _, p := range h.Ports {
				if a := p.Address.Addr().String(); taken[a] || p.Device == "" {
					t.Fatalf("%q: %+v", text, p)
				} else {
					taken[a] = true
				}
			}
		}
	})
}
