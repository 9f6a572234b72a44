package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/rocev2"
	rocelayers "github.com/gorxe/gorxe/rocev2/layers"
	"github.com/gorxe/gorxe/wire"
)

// testConfig has two addresses that no other process uses at the same time.
func testConfig(out *bytes.Buffer) Config {
	pid := os.Getpid()
	return Config{
		Addresses: [2]netip.Addr{
			netip.AddrFrom4([4]byte{127, 71, byte(pid >> 8), byte(pid)}),
			netip.AddrFrom4([4]byte{127, 72, byte(pid >> 8), byte(pid)}),
		},
		Duration: time.Millisecond,
		Sizes:    []int{1000, 1 << 16},
		Out:      out,
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	cfg := testConfig(&out)
	cfg.Capture = filepath.Join(t.TempDir(), "demo.pcapng")
	if err := Run(t.Context(), cfg); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"verified  RDMA READ", "verified  FETCH AND ADD", "64 KiB", "1000 B", "median", cfg.Capture} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	checkCapture(t, cfg.Capture, cfg.Addresses)
}

// checkCapture reads the capture as any gopacket program would, and looks for
// the opcodes of every operation and every way of cutting a message.
func checkCapture(t *testing.T, path string, addrs [2]netip.Addr) {
	rocelayers.Register()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[wire.Opcode]int)
	for packet := range gopacket.NewPacketSource(r, r.LinkType()).Packets() {
		if e := packet.ErrorLayer(); e != nil {
			t.Fatalf("%v\n%v", e.Error(), packet)
		}
		ip, _ := packet.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		bth, _ := packet.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
		if ip == nil || bth == nil {
			t.Fatalf("not RoCEv2 over IPv4:\n%v", packet)
		}
		src, dst := addrs[0], addrs[1]
		if ip.SrcIP.String() != src.String() {
			src, dst = dst, src
		}
		if ip.SrcIP.String() != src.String() || ip.DstIP.String() != dst.String() {
			t.Errorf("a packet from %v to %v", ip.SrcIP, ip.DstIP)
		}
		seen[bth.Opcode]++
	}
	for _, op := range []wire.Opcode{
		wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly, wire.RCSendLastImm, wire.RCSendOnlyImm,
		wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly, wire.RCWriteLastImm, wire.RCWriteOnlyImm,
		wire.RCReadRequest, wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast, wire.RCReadResponseOnly,
		wire.RCAck, wire.RCAtomicAck, wire.RCCompareSwap, wire.RCFetchAdd,
	} {
		if seen[op] == 0 {
			t.Errorf("no %v in the capture", op)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
	}{
		{"no address", func(c *Config) { c.Addresses[1] = netip.Addr{} }},
		{"same address", func(c *Config) { c.Addresses[1] = c.Addresses[0] }},
		{"IP versions", func(c *Config) { c.Addresses[1] = netip.IPv6Loopback() }},
		{"no duration", func(c *Config) { c.Duration = 0 }},
		{"size 0", func(c *Config) { c.Sizes = []int{0} }},
		{"huge size", func(c *Config) { c.Sizes = []int{maxSize + 1} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			cfg := testConfig(&out)
			tt.change(&cfg)
			if err := Run(t.Context(), cfg); !errors.Is(err, ErrConfig) {
				t.Errorf("error %v, want ErrConfig", err)
			}
			if out.Len() > 0 {
				t.Errorf("printed %q", &out)
			}
		})
	}
}

func TestRunFailures(t *testing.T) {
	t.Run("address of another host", func(t *testing.T) {
		cfg := testConfig(new(bytes.Buffer))
		cfg.Addresses[0] = netip.MustParseAddr("192.0.2.77")
		if err := Run(t.Context(), cfg); !errors.Is(err, rocev2.ErrNoAddress) {
			t.Errorf("error %v, want ErrNoAddress", err)
		}
	})
	t.Run("capture in no directory", func(t *testing.T) {
		cfg := testConfig(new(bytes.Buffer))
		cfg.Capture = filepath.Join(t.TempDir(), "none", "demo.pcapng")
		if err := Run(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Run(ctx, testConfig(new(bytes.Buffer))); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want Canceled", err)
		}
	})
}

// The verification has to see a single wrong byte, wherever it is.
func TestTransferSeesWrongData(t *testing.T) {
	cfg := testConfig(new(bytes.Buffer))
	p, err := openPair(&cfg, 64, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	src, dst := p.a.mr.Bytes(), p.b.mr.Bytes()
	tests := []struct {
		name   string
		damage func()
		want   error
	}{
		{"exact copy", func() {}, nil},
		{"first byte", func() { dst[0]++ }, errMismatch},
		{"last byte", func() { dst[31]++ }, errMismatch},
		{"byte behind the message", func() { dst[32]++ }, errMismatch},
		{"last byte of the buffer", func() { dst[63]++ }, errMismatch},
		{"source", func() { src[40]++ }, errMismatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fill(src, 1)
			fill(dst, 2)
			err := transfer(p.a, p.b, 32, func() error {
				copy(dst[:32], src)
				tt.damage()
				return nil
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestProgressLine(t *testing.T) {
	var out, terminal bytes.Buffer
	r := &reporter{out: &out, terminal: &terminal}
	r.progress("measuring %s", "SEND")
	r.printf("done\n")
	if got, want := terminal.String(), "\r\x1b[Kmeasuring SEND ...\r\x1b[K"; got != want {
		t.Errorf("terminal got %q, want %q", got, want)
	}
	if out.String() != "done\n" {
		t.Errorf("report is %q", &out)
	}
}

// The pattern must not repeat within a message, or a packet that went to the
// wrong place would not show.
func TestFillDoesNotRepeat(t *testing.T) {
	buf := make([]byte, verifyBuffer)
	fill(buf, 1)
	seen := make(map[uint64]int)
	for i := 0; i+8 <= len(buf); i++ {
		word := binary.LittleEndian.Uint64(buf[i:])
		if at, ok := seen[word]; ok {
			t.Fatalf("the 8 bytes at %d are those at %d", i, at)
		}
		seen[word] = i
	}
}
