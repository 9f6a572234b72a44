package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

const file = `
topology:
  nodes:
    server: {cmd: ./server, background: true}
    c[1-2]: {wait-for: [server]}
    leaf: {kind: bridge}
  links:
    - {endpoints: ["server:eth1", leaf], rate: 1gbit, ecn: 20}
    - endpoints: ["c[1-2]:eth1", leaf]
    - {endpoints: ["c1:eth2", "c2:eth2"], loss: 1%, latency: 5us}
`

func parsed(t *testing.T, text string) *labfile.Lab {
	t.Helper()
	return must.Get[*labfile.Lab](t)(labfile.Parse([]byte(text)))
}

// TestAssign: a command goes to the hosts that have none, or to those that are named. A lab needs a
// program that ends.
func TestAssign(t *testing.T) {
	for _, c := range []struct {
		command, on []string
		want, says  string
	}{
		{[]string{"x"}, nil, "server=sh c1=x c2=x", ""},
		{[]string{"x"}, []string{"c2"}, "server=sh c1=sleep c2=x", ""},
		{[]string{"x"}, []string{"server", "c1"}, "server=x c1=x c2=sleep", ""},
		{[]string{"x"}, []string{"c3"}, "", "--on c3: the lab has no such host"},
		{nil, nil, "", "no host has a program that the lab could wait for: give one after --, or cmd in the file"},
	} {
		l := parsed(t, file)
		err := Assign(l, c.command, c.on)
		if err != nil || c.says != "" {
			if err == nil || err.Error() != c.says {
				t.Errorf("%v: %v, want %s", c, err, c.says)
			}
			continue
		}
		var got []string
		for _, h := range l.Hosts {
			if h.Command != nil {
				got = append(got, h.Name+"="+h.Command[0])
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%v: %s", c, s)
		}
	}
	l := parsed(t, strings.Replace(file, "cmd: ./server, background: true", "", 1))
	if err := Assign(l, []string{"x"}, []string{"c1"}); err == nil || err.Error() != "c1 waits for server, which has no program" {
		t.Error(err)
	}
}

// TestCode: the worst exit code counts, of the programs that the lab has not ended.
func TestCode(t *testing.T) {
	if got := Code([]End{{Code: 3}, {Code: 7}, {Code: 143, Stopped: true}, {Code: 9, Asked: true}, {}}); got != 7 {
		t.Error(got)
	}
}

// TestUnreadyCode: a program that the lab ended because it was late does not count with the signal.
func TestUnreadyCode(t *testing.T) {
	for _, c := range []struct {
		ended      bool
		code, want int
	}{{false, 143, 125}, {false, 0, 125}, {true, 0, 125}, {true, 3, 125}, {true, 139, 139}} {
		if got := unreadyCode(c.ended, c.code); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestLinkRules: the model of a link is a rule for each direction, at one end.
func TestLinkRules(t *testing.T) {
	l := parsed(t, file)
	var got []string
	for i := range l.Hosts {
		for _, p := range l.Hosts[i].Ports {
			for _, text := range linkRules(l, &l.Hosts[i], p) {
				if _, err := fault.Parse(text); err != nil {
					t.Error(err)
				}
				got = append(got, text)
			}
		}
	}
	want := []string{
		"packet shape,rate=1gbit,ecn=20,direction=out,scope=device,device=rxe0,name=server-eth1-out",
		"packet shape,rate=1gbit,ecn=20,direction=in,scope=device,device=rxe0,name=server-eth1-in",
		"packet shape,loss=1%,latency=5us,direction=out,scope=device,device=rxe1,name=c1-eth2-out",
		"packet shape,loss=1%,latency=5us,direction=in,scope=device,device=rxe1,name=c1-eth2-in",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestNames: the first address of a host is its name's.
func TestNames(t *testing.T) {
	want := "127.0.0.1\tlocalhost\n::1\tlocalhost\n10.0.1.1\tserver\n10.0.1.2\tc1\n10.0.1.3\tc2\n" +
		"10.0.1.1\tserver-eth1\n10.0.1.2\tc1-eth1\n10.0.2.2\tc1-eth2\n10.0.1.3\tc2-eth1\n10.0.2.3\tc2-eth2\n"
	if got := names(parsed(t, file)); got != want {
		t.Error(got)
	}
}

// TestMerge: the merged capture has each packet once, in the order of time, at the link of the host
// that comes first in the file.
func TestMerge(t *testing.T) {
	l, dir := parsed(t, file), t.TempDir()
	paths := make([]string, len(l.Hosts))
	taps := make([]*rocev2.Tap, len(l.Hosts))
	for i := range paths {
		paths[i] = filepath.Join(dir, l.Hosts[i].Name)
		taps[i] = must.Get[*rocev2.Tap](t)(rocev2.OpenTap(paths[i], "gorxe"))
	}
	var psn byte
	send := func(from, to string, seen ...int) {
		psn++
		for _, host := range seen {
			pkt := make([]byte, wire.BTHLen+wire.ICRCLen)
			pkt[11] = psn
			route := &wire.Route{Src: netip.MustParseAddr(from), Dst: netip.MustParseAddr(to), SrcPort: 50000}
			taps[host].WriteNoted(route, pkt, 1, 0, fmt.Sprint("note ", psn))
		}
	}
	const s, c1, c2, other = "10.0.1.1", "10.0.1.2", "10.0.1.3", "224.0.0.9"
	send(s, c1, 0, 1)
	send(c2, c1, 2, 1)
	send(c1, s, 1, 0)
	send(c2, c2, 2)       // within a device
	send(c1, other, 1, 2) // multicast
	send("10.0.2.3", "10.0.2.2", 2, 1)
	send("fe80::aff:fe00:103", "fe80::aff:fe00:101", 2, 0)
	for _, tap := range taps {
		if err := tap.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if n, err := Merge(l, paths, &out, 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	want := []string{"1 server:eth1 - leaf", "2 c1:eth1 - leaf", "3 server:eth1 - leaf", "4 c2:eth1 - leaf", "5 c1:eth1 - leaf", "6 c1:eth2 - c2:eth2", "7 server:eth1 - leaf"}
	if got := packets(t, out.Bytes(), l); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}

	// A bound leaves out what is later. A capture of a daemon that was killed may be cut or empty,
	// and that of one that did not start may not be there.
	text := must.Get[[]byte](t)(os.ReadFile(paths[0]))
	if err := os.WriteFile(paths[0], text[:len(text)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths[1], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, none := range []string{"", filepath.Join(dir, "missing")} {
		paths[2] = none
		out.Reset()
		if n, err := Merge(l, paths, &out, 60); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if got := packets(t, out.Bytes(), l); !slices.Equal(got, want[:1]) {
			t.Errorf("%q", got)
		}
	}
}

// packets are the packets of a capture, each by its PSN and the link.
func packets(t *testing.T, text []byte, l *labfile.Lab) (list []string) {
	t.Helper()
	r := must.Get[*capture.Reader](t)(capture.NewReader(bytes.NewReader(text)))
	for {
		var p capture.Packet
		switch err := r.Next(&p); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		}
		psn := p.Transport[11]
		if string(p.Comment) != fmt.Sprint("gorxe: note ", psn) || p.Time.IsZero() {
			t.Errorf("packet %d: comment %q, time %v", psn, p.Comment, p.Time)
		}
		list = append(list, fmt.Sprintf("%d %s", psn, interfaceOf(t, text, p.Number)))
	}
}

// interfaceOf returns the name of the interface of a packet, in the file that writeHeader begins.
func interfaceOf(t *testing.T, text []byte, number int) string {
	t.Helper()
	var interfaces []string
	for len(text) > 0 {
		kind, size := text[0], int(text[4])|int(text[5])<<8
		switch kind {
		case interfaceBlock:
			interfaces = append(interfaces, string(text[20:20+int(text[18])]))
		case packetBlock:
			if number--; number == 0 {
				return interfaces[text[8]]
			}
		}
		text = text[size:]
	}
	t.Fatal("there is no such packet")
	return ""
}
