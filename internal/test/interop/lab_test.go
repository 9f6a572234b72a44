package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/test/interop/agent"
)

// The cable: tap0 here, eth0 in the guest.
const (
	tap     = "tap0"
	linkMTU = 4200 // room for path MTU 4096 with all headers
)

// programTimeout bounds one program. An emulated machine, beside other work,
// is slow; a program that hangs is not worth an exact limit.
const programTimeout = 120 * time.Second

// caseLimit replaces that limit where programs must fail (scripts/broken-builds.sh). It is
// shorter.
var caseLimit = func() time.Duration {
	text := os.Getenv("GORXE_INTEROP_PATIENCE")
	if text == "" {
		return programTimeout
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic("GORXE_INTEROP_PATIENCE: " + err.Error())
	}
	return d
}()

// longTimeout bounds the commands that do many operations.
const longTimeout = 30 * time.Minute

// laboratory has the two machines and the cable between them.
type laboratory struct {
	out     string // directory for what the cases leave
	scratch string
	kernel  kernel
	release string // what the guest's uname says

	gorxe  *machine // or a second guest in place of gorxe: see kernels
	guest  *machine
	wire   *recorder
	reader *reader

	local net.Conn
	port  int
}

// kernels puts a second guest in gorxe's place: what one kernel says to another.
var kernels = os.Getenv("GORXE_INTEROP_PEER") == "kernel"

// machine is one end of the cable.
type machine struct {
	*agent.Client
	name   string
	device string // the cable's end
	mac    string
	addr   string // IPv4
	addr6  string
	under  []string    // what every verbs program is run under
	rdma   string      // the RDMA device
	daemon *agent.Proc // of gorxe
	gid    map[family]int
	vm     *exec.Cmd // nil for this machine
}

func (m *machine) isKernel() bool { return m.vm != nil }

type family string

const (
	ipv4 family = "IPv4"
	ipv6 family = "IPv6"
)

// verbs starts a program with the machine's RDMA device.
func (m *machine) verbs(argv ...string) *agent.Proc {
	return m.Start(append(append([]string{}, m.under...), argv...)...)
}

// sh runs a command and wants it to succeed.
func (m *machine) sh(script string) (string, error) {
	p := m.Start("sh", "-c", script)
	code, err := p.Wait(programTimeout)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w\n%s", m.name, script, err, p.Output())
	}
	return p.Output(), err
}

func newLaboratory(out string, k kernel) (_ *laboratory, err error) {
	l := &laboratory{out: out, kernel: k, port: 18500, reader: startReader(out)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if l.scratch, err = os.MkdirTemp("", "gorxe-interop-"); err != nil {
		return nil, err
	}
	started := time.Now()
	defer func() { fmt.Printf("interop: the machines took %.0f s to start\n", time.Since(started).Seconds()) }()
	if err := l.build(); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	l.local = here
	go agent.Serve(there) //nolint:errcheck // it ends with the pipe
	local := &machine{Client: agent.NewClient(here), name: "gorxe", device: tap}
	l.gorxe, l.guest = local, &machine{name: "kernel", device: "eth0"}
	if kernels {
		l.gorxe = &machine{name: "kernel2", device: "eth0"}
	}
	for i, m := range []*machine{l.gorxe, l.guest} {
		m.mac = fmt.Sprintf("02:00:00:00:77:%02x", i+1)
		m.addr, m.addr6 = fmt.Sprintf("10.77.0.%d", i+1), fmt.Sprintf("fd77::%d", i+1)
	}
	if err := l.layCable(local); err != nil {
		return nil, err
	}
	if l.wire, err = startRecorder(tap); err != nil {
		return nil, err
	}
	if err := l.startKernel(l.guest, tap); err != nil {
		return nil, err
	}
	if kernels {
		return l, l.startKernel(l.gorxe, tap2)
	}
	return l, l.startGorxe("rxe0")
}

// build compiles the programs of the two machines. It must run before the boot, because the
// guest may cache which files the host has.
func (l *laboratory) build() error {
	for _, pkg := range []string{"cmd/gorxe", "internal/test/interop/guest"} {
		args := []string{"build", "-trimpath", "-o", l.scratch + "/"}
		// scripts/broken-builds.sh: a gorxe with a mistake.
		if overlay := os.Getenv("GORXE_INTEROP_OVERLAY"); overlay != "" {
			args = append(args, "-overlay", overlay)
		}
		cmd := exec.Command("go", append(args, "github.com/gorxe/gorxe/"+pkg)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	headers := filepath.Join(newerRoot, "usr/include")
	if l.has(flush) {
		if err := compile(l.endpointNewer(), "endpoint", "-DHAVE_FLUSH", "-I", headers); err != nil {
			return err
		}
	}
	if err := compile(l.endpoint(), "endpoint"); err != nil {
		return err
	}
	return compile(l.cmPeer(), "cmpeer", "-lrdmacm")
}

// newerRoot is where scripts/newer-rdma-core.sh unpacks a newer rdma-core.
var newerRoot = func() string {
	dir, err := filepath.Abs("../../../bin/rdma-core-newer")
	if err != nil {
		panic(err)
	}
	return dir
}()

// compile compiles a program of a directory of testdata, which takes commands.
func compile(program, directory string, flags ...string) error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	sources, err := filepath.Glob("testdata/" + directory + "/*.c")
	if err != nil {
		return err
	}
	args := append([]string{"-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/commands/commands.c"}, sources...)
	if out, err := exec.Command(cc, append(append(args, flags...), "-libverbs")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s testdata/%s: %w\n%s", cc, directory, err, out)
	}
	return nil
}

func (l *laboratory) endpoint() string { return filepath.Join(l.scratch, "endpoint") }

func (l *laboratory) cmPeer() string { return filepath.Join(l.scratch, "cmpeer") }

func (l *laboratory) endpointNewer() string { return filepath.Join(l.scratch, "endpoint-newer") }

// layCable makes the tap, and gives it to gorxe or joins it to the tap of the second guest.
func (l *laboratory) layCable(local *machine) error {
	script := fmt.Sprintf(`set -e
ip link set lo up
ip tuntap add dev %[1]s mode tap
ip link set %[1]s mtu %[2]d txqueuelen %[3]d addrgenmode none
`, tap, linkMTU, tapQueue)
	if kernels {
		script += fmt.Sprintf(`ip tuntap add dev %[3]s mode tap
ip link set %[3]s mtu %[2]d addrgenmode none
ip link add cable type bridge mcast_snooping 0
ip link set cable mtu %[2]d addrgenmode none
ip link set %[1]s master cable up
ip link set %[3]s master cable up
ip link set cable up`, tap, linkMTU, tap2)
	} else {
		script += fmt.Sprintf("ip link set %s address %s\n", tap, local.mac) + local.addresses()
	}
	_, err := local.sh(script)
	return err
}

// tapQueue is how many packets can wait for the emulator, which is slow. It holds the whole
// answer to a READ of 8 MiB at path MTU 256, which gorxe sends as one burst.
const tapQueue = 40_000

// tap2 is the tap of the second guest.
const tap2 = "tap1"

// addresses are commands that set the link up with its addresses.
func (m *machine) addresses() string {
	return fmt.Sprintf(`ip link set %[1]s mtu %[2]d addrgenmode none
ip link set %[1]s up
ip addr add fe80::%[3]s/64 dev %[1]s nodad
ip addr add %[4]s/24 dev %[1]s
ip addr add %[5]s/64 dev %[1]s nodad
`, m.device, linkMTU, m.mac[len(m.mac)-1:], m.addr, m.addr6)
}

// boot starts the emulator and waits for the guest's agent. The guest powers
// itself off when the agent's port closes.
func (l *laboratory) boot(m *machine, tap string, log *os.File) error {
	image, err := l.kernel.image()
	if err != nil {
		return err
	}
	init, err := os.ReadFile(filepath.Join(l.scratch, "guest"))
	if err != nil {
		return err
	}
	packed, err := l.kernel.initramfs(init)
	if err != nil {
		return err
	}
	initrd := filepath.Join(l.scratch, m.name+".initrd.gz")
	if err := os.WriteFile(initrd, packed, 0o644); err != nil {
		return err
	}
	socket := filepath.Join(l.scratch, m.name+".agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	// No offloads, so the tap has the packets that a cable would have.
	nic := "virtio-net-pci,netdev=cable,mac=" + m.mac + ",csum=off,gso=off,guest_csum=off," +
		"guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"
	m.vm = exec.Command("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// Without the fast string instructions: the kernel would copy with them, and the
		// emulator executes them byte by byte.
		"-accel", "tcg,thread=multi", "-cpu", "max,-erms,-fsrm", "-smp", "2", "-m", "1024",
		"-kernel", image, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 loglevel=4",
		"-serial", "stdio",
		"-virtfs", "local,path=/,mount_tag=hostroot,security_model=passthrough,readonly=on,multidevs=remap",
		"-netdev", "tap,id=cable,ifname="+tap+",script=no,downscript=no", "-device", nic,
		"-chardev", "socket,id=agent,path="+socket, "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent")
	m.vm.Stdout, m.vm.Stderr = log, log
	if err := m.vm.Start(); err != nil {
		return err
	}
	if err := listener.(*net.UnixListener).SetDeadline(time.Now().Add(programTimeout)); err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("qemu: %w", err)
	}
	m.Client = agent.NewClient(conn)
	l.release, err = m.sh("uname -r")
	if err != nil {
		return err
	}
	version, err := m.sh("uname -v")
	if err != nil {
		return err
	}
	// "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)": the part that tells.
	if _, v, ok := strings.Cut(version, "Debian "); ok {
		l.release = "Debian " + strings.Fields(v)[0]
	}
	return nil
}

// startKernel boots a guest and makes the kernel's rxe0.
func (l *laboratory) startKernel(m *machine, tap string) error {
	console := filepath.Join(l.out, "console-"+m.name+".txt")
	log, err := os.Create(console)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := l.boot(m, tap, log); err != nil {
		text, _ := os.ReadFile(console)
		return fmt.Errorf("%w\nthe guest's console:\n%s", err, text)
	}
	if _, err := m.sh("set -e\nip link set lo up\n" + m.addresses() + "rdma link add rxe0 type rxe netdev " + m.device); err != nil {
		return err
	}
	return m.findGIDs("rxe0")
}

// startGorxe starts the daemon with a device of that name. One that runs ends first.
func (l *laboratory) startGorxe(device string) error {
	socket := filepath.Join(l.scratch, "gorxe.sock")
	binary := filepath.Join(l.scratch, "gorxe")
	if l.gorxe.daemon != nil {
		l.gorxe.daemon.Kill()
		if _, err := l.gorxe.daemon.Wait(programTimeout); err != nil {
			return fmt.Errorf("the daemon of %s: %w", l.gorxe.rdma, err)
		}
		if err := os.Remove(socket); err != nil {
			return err
		}
	}
	daemon := l.gorxe.Start(binary, "daemon", "--device", device+"="+tap, "--socket", socket)
	l.gorxe.daemon = daemon
	for deadline := time.Now().Add(programTimeout); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if daemon.Ended() || time.Now().After(deadline) {
			return fmt.Errorf("gorxe daemon: %s", daemon.Output())
		}
	}
	l.gorxe.under = []string{binary, "run", "--socket", socket, "--"}
	return l.gorxe.findGIDs(device)
}

// findGIDs looks up where the addresses are in the device's GID table.
func (m *machine) findGIDs(device string) error {
	m.rdma = device
	p := m.verbs("sh", "-c", "for i in 0 1 2 3 4 5 6 7; do echo $i $(cat /sys/class/infiniband/"+device+"/ports/1/gids/$i); done")
	if code, err := p.Wait(programTimeout); code != 0 || err != nil {
		return fmt.Errorf("%s: GID table: %d %v\n%s", m.name, code, err, p.Output())
	}
	m.gid = map[family]int{}
	for line := range strings.Lines(p.Output()) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		ip := net.ParseIP(f[1])
		switch i, err := strconv.Atoi(f[0]); {
		case err != nil:
			return err
		case ip.Equal(net.ParseIP(m.addr)):
			m.gid[ipv4] = i
		case ip.Equal(net.ParseIP(m.addr6)):
			m.gid[ipv6] = i
		}
	}
	if len(m.gid) != 2 {
		return fmt.Errorf("%s: its GID table lacks %s or %s:\n%s", m.name, m.addr, m.addr6, p.Output())
	}
	return nil
}

// nextPort is a TCP port that no other case has used.
func (l *laboratory) nextPort() int {
	l.port++
	return l.port
}

// close ends everything. The guest powers itself off when the connection to its agent ends,
// and the process namespace ends with this process.
func (l *laboratory) close() {
	if l.wire != nil {
		l.wire.close()
	}
	if l.local != nil {
		l.local.Close()
	}
	for _, m := range []*machine{l.gorxe, l.guest} {
		if m != nil && m.vm != nil && m.vm.Process != nil {
			m.vm.Process.Kill() //nolint:errcheck // it may have ended
			m.vm.Wait()         //nolint:errcheck // it was killed
		}
	}
	if l.scratch != "" {
		os.RemoveAll(l.scratch) //nolint:errcheck // it only takes room
	}
}
