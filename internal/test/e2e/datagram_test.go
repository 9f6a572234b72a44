package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// asked is what another host answers to management datagrams with a GRH, which no program of
// infiniband-diags sends.
type asked struct {
	Status  uint16 // of PortCounters
	Packets uint32 // that its port has sent
	Set     uint16 // the status of an attempt to set them
	Ping    string // what ibping -S there says of its host
}

// TestDatagramsToAnotherHost: the performance management agent of one gorxe answers another
// host, which cannot set counters. ibping -S answers there too.
func TestDatagramsToAnotherHost(t *testing.T) {
	need(t, "/usr/sbin/ibping", "ibv_rc_pingpong")
	if native != "" || !selection.takes(standard) {
		return
	}
	a, b := twoHosts(t, 1500)
	here, there := startDaemon(t, a, "--device", "rxe0=eth0"), startDaemon(t, b, "--device", "rxe0=eth0")
	o := topology{server: here.run, client: there.run, host: a}
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "100").good(t)
	server := there.run(t, "/usr/sbin/ibping", "-S")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := here.run(t, "env", roleEnv+"=ask", exe, b.addr).ok()
	var got asked
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Status != 0 || got.Packets < 100 || got.Set != 0x000c {
		t.Errorf("the other host answers %+v", got)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Ping) < len(name) || got.Ping[:len(name)] != name {
		t.Errorf("ibping -S says %q, on a host called %s", got.Ping, name)
	}
	server.killProgram("ibping")
}

func playAsk(args []string) int {
	got, err := ask(netip.MustParseAddr(args[0]))
	return printed(got, err)
}

// printed prints what a program has found out, as JSON, or its error, and returns the exit status.
func printed(found any, err error) int {
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Classes, methods and attributes of management datagrams (IBA 13.4).
const (
	classPerformance = 0x04
	classPing        = 0x32 // of a vendor, as ibping has it
	methodGet        = 0x01
	methodSet        = 0x02
	portCounters     = 0x12
)

func ask(to netip.Addr) (got asked, err error) {
	f, err := os.OpenFile("/dev/infiniband/umad0", os.O_RDWR, 0)
	if err != nil {
		return got, err
	}
	defer f.Close()
	m := &manager{fd: int(f.Fd()), to: to.As16()}
	if err := m.ioctl(0x1b03, nil); err != nil { // IB_USER_MAD_ENABLE_PKEY
		return got, fmt.Errorf("enable P_Keys: %w", err)
	}
	perf, err := m.register(classPerformance, 0)
	if err != nil {
		return got, err
	}
	ping, err := m.register(classPing, 0x001405)
	if err != nil {
		return got, err
	}
	select1 := func(d []byte) { d[64+1] = 1 } // PortSelect
	answer, err := m.exchange(perf, classPerformance, methodGet, portCounters, select1)
	if err != nil {
		return got, err
	}
	got.Status = binary.BigEndian.Uint16(answer[4:])
	got.Packets = binary.BigEndian.Uint32(answer[64+32:]) // PortXmitPkts
	if answer, err = m.exchange(perf, classPerformance, methodSet, portCounters, select1); err != nil {
		return got, err
	}
	got.Set = binary.BigEndian.Uint16(answer[4:])
	// Before ibping registers, nobody there takes its class.
	ok := until(programLimit, func() bool {
		answer, err = m.exchange(ping, classPing, methodGet, 0, func(d []byte) { copy(d[37:], []byte{0, 0x14, 0x05}) })
		return err != nil || binary.BigEndian.Uint16(answer[4:]) == 0
	})
	if err != nil || !ok {
		return got, fmt.Errorf("ibping -S does not answer: %w", err)
	}
	text, _, _ := bytes.Cut(answer[40:], []byte{0})
	got.Ping = string(text)
	return got, nil
}

// manager sends management datagrams to one port, as a program does through libibumad.
type manager struct {
	fd  int
	to  [16]byte
	tid uint32
}

func (m *manager) ioctl(command uintptr, arg []byte) error {
	var p unsafe.Pointer
	if len(arg) > 0 {
		p = unsafe.Pointer(&arg[0])
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m.fd), command, uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}

// register makes an agent that sends (struct ib_user_mad_reg_req).
func (m *manager) register(class byte, oui uint32) (agent uint32, err error) {
	req := make([]byte, 28)
	req[20], req[21], req[22] = 1, class, 1 // QPN, class, its version
	req[23], req[24], req[25] = byte(oui>>16), byte(oui>>8), byte(oui)
	if err := m.ioctl(0xc01c1b01, req); err != nil { // IB_USER_MAD_REGISTER_AGENT
		return 0, fmt.Errorf("register for class %#x: %w", class, err)
	}
	return binary.NativeEndian.Uint32(req), nil
}

const (
	sizeofMADHdr = 64 // struct ib_user_mad_hdr
	sizeofMAD    = 256
)

// exchange sends a request, and returns the datagram that answers it.
func (m *manager) exchange(agent uint32, class, method byte, attribute uint16, fill func([]byte)) ([]byte, error) {
	b := make([]byte, sizeofMADHdr+sizeofMAD)
	order := binary.NativeEndian
	order.PutUint32(b, agent)
	order.PutUint32(b[8:], 1000) // ms
	order.PutUint32(b[12:], 20)  // retries
	binary.BigEndian.PutUint32(b[20:], 1)
	b[32], b[33], b[34] = 1, gidIPv4, 64 // a GRH, GID index, hop limit
	copy(b[36:], m.to[:])
	mad := b[sizeofMADHdr:]
	mad[0], mad[1], mad[2], mad[3] = 1, class, 1, method
	m.tid++
	binary.BigEndian.PutUint32(mad[12:], m.tid)
	binary.BigEndian.PutUint16(mad[16:], attribute)
	fill(mad)
	if _, err := unix.Write(m.fd, b); err != nil {
		return nil, fmt.Errorf("send class %#x: %w", class, err)
	}
	answer := make([]byte, len(b))
	for {
		_, err := unix.Read(m.fd, answer)
		if err == nil {
			break
		}
		if err != unix.EINTR { // Go's scheduler sends signals
			return nil, fmt.Errorf("receive class %#x: %w", class, err)
		}
	}
	if status := order.Uint32(answer[4:]); status != 0 {
		return nil, fmt.Errorf("class %#x: no answer, status %d", class, status)
	}
	got := answer[sizeofMADHdr:]
	if got[3] != 0x81 || binary.BigEndian.Uint32(got[12:]) != m.tid {
		return nil, fmt.Errorf("class %#x: the answer to %d is %s", class, m.tid, hex.EncodeToString(got[:24]))
	}
	return got, nil
}
