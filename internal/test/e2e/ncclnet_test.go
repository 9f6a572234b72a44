package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// ncclSeeds is how many seeds TestNCCLNet has.
const ncclSeeds = 10

// ncclRules are what goes wrong with a seed. The sender has rxe0 and rxe1, the receiver has rxe2
// and rxe3. A rail always fails, so that the program without recovery ends.
func ncclRules(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 50))
	device := func() string { return "device=rxe" + strconv.Itoa(r.IntN(4)) }
	ms := func(least, most int) string { return strconv.Itoa(least+r.IntN(most-least)) + "ms" }
	rules := []string{fmt.Sprintf("completion fail,status=IBV_WC_RETRY_EXC_ERR,opcode=RDMA_WRITE,device=rxe%d,after=%d,first=1", r.IntN(2), 1+r.IntN(200))}
	for range 1 + r.IntN(3) {
		rules = append(rules, []func() string{
			func() string {
				return "port down,scope=device," + device() + ",after=" + ms(1, 200) + ",time=" + ms(1, 200)
			},
			func() string {
				return "port down,scope=device," + device() + ",after=" + ms(1, 200) + ",times=5,time=" + ms(1, 20)
			},
			func() string { return "port gid_moved,scope=device,gid=1," + device() + ",after=" + ms(1, 200) },
			func() string { return "port gid_moved,scope=device,gid=1," + device() + ",times=9,time=" + ms(1, 40) },
			func() string {
				return "device remove,opcode=RDMA_WRITE,device=rxe1,first=1,after=" + strconv.Itoa(1+r.IntN(400))
			},
			func() string { return "packet drop,p=1%," + device() + ",seed=" + strconv.FormatUint(seed, 10) },
			func() string { return "packet delay,p=2%,jitter=5ms,time=" + ms(5, 60) + "," + device() },
			func() string { return "packet duplicate,p=2%," + device() },
			func() string { return "packet reorder,p=2%," + device() },
			func() string { return "packet shape,rate=1gbit,queue=1000," + device() },
			func() string { return "peer silent,after=" + ms(1, 200) + ",until=" + ms(200, 300) + "," + device() },
			func() string { return "peer rnr,p=2%," + device() },
			func() string { return "limits set,max_uc=0" },
		}[r.IntN(13)]())
	}
	return rules
}

// compileNCCLNet compiles examples/ncclnet as its first comment says.
func compileNCCLNet(t *testing.T) string {
	t.Helper()
	return gcc(t, "ncclnet", "-O2", "-Wall", "-Wextra", "-Werror", "../../../examples/ncclnet/ncclnet.c", "-libverbs", "-ldl", "-lpthread")
}

// TestNCCLNet: the calls of NCCL's plugin over two rails, with other faults for each seed. No byte
// is wrong, and each message arrives. Without recovery the same faults end the program.
// GORXE_NCCL_SEEDS has how many seeds, and GORXE_NCCL_FIRST the first.
func TestNCCLNet(t *testing.T) {
	notNative(t, "fault rules")
	if !selection.takes(standard) {
		return
	}
	bin := compileNCCLNet(t)
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	first, seeds := number("GORXE_NCCL_FIRST", 1), number("GORXE_NCCL_SEEDS", ncclSeeds)
	for seed := first; seed < first+seeds; seed++ {
		rules := ncclRules(seed)
		argv := []string{gorxe, "run", "--private", "--rails", "4", "--faults-may-miss"}
		for _, rule := range rules {
			argv = append(argv, "--fault", rule)
		}
		argv = append(argv, "--", bin, "--rails", "2", "--timeout", "8", "--seed", strconv.FormatUint(seed, 10))
		p := start(t, h, nil, argv...)
		// the table of a rail is short: NCCL asks for each entry twice
		if code := p.wait(); code != 0 || strings.Count(p.out.String(), ": 400 messages, ") != 2 || strings.Count(p.out.String(), " of 32, dma-bufs") != 4 {
			t.Errorf("seed %d: exit status %d\n%s\n%s", seed, code, strings.Join(rules, "\n"), p.out.String())
		}
		if seed%4 != first%4 {
			continue
		}
		p = start(t, h, nil, append(argv, "--no-recovery")...)
		code := p.wait()
		if code != 1 || !strings.Contains(p.out.String(), "without recovery that is the end") {
			t.Errorf("seed %d without recovery: exit status %d\n%s\n%s", seed, code, strings.Join(rules, "\n"), p.out.String())
		}
	}
}

// TestRailVanishes: the interface of a rail is deleted while messages pass. The programs hear of
// it, and the messages arrive over the other rail.
func TestRailVanishes(t *testing.T) {
	besideOthers(t)
	notNative(t, "rails")
	need(t, "ibv_asyncwatch", "stdbuf")
	if !selection.takes(standard) {
		return
	}
	bin := compileNCCLNet(t)
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	for i := range 4 {
		h.ip(t, "link add eth%d type veth peer name cable%d", i, i)
		h.ip(t, "link set cable%d up", i)
		h.ip(t, "link set eth%d addrgenmode none", i)
		h.ip(t, "link set eth%d up", i)
		h.ip(t, "addr add 192.0.2.%d/32 dev eth%d", i+1, i)
	}
	d := startDaemon(t, h, "--devices", "4rails")
	watch := d.run(t, "stdbuf", "-oL", "ibv_asyncwatch", "-d", "rxe1")
	p := start(t, h, d.env(), gorxe, "run", "--fault", "packet shape,rate=500mbit,queue=10000", "--",
		bin, "--rails", "2", "--timeout", "10", "--messages", "1000")
	under := func() bool {
		return d.books().packets()[3] > 100 && strings.Contains(watch.out.String(), "async event FD")
	}
	if !until(programLimit, func() bool { return p.ended() || under() }) || p.ended() {
		t.Fatalf("no messages pass:\n%s\n%s", p.describe(), watch.describe())
	}
	h.ip(t, "link del eth1")
	out := p.ok()
	for _, says := range []string{"sender: rxe1 failed", "sender: 1000 messages", "receiver: 1000 messages"} {
		if !strings.Contains(out, says) {
			t.Errorf("no %q:\n%s", says, out)
		}
	}
	if !until(programLimit, func() bool {
		return strings.Contains(watch.out.String(), "PORT_ERR") && strings.Contains(watch.out.String(), "GID_CHANGE")
	}) {
		t.Errorf("the events are\n%s", watch.out.String())
	}
	if out := d.run(t, "ibv_devinfo", "-d", "rxe1").ok(); !strings.Contains(out, "PORT_DOWN") {
		t.Errorf("the port without interface is\n%s", out)
	}
	watch.killProgram("ibv_asyncwatch")
}

// number returns the value of an environment variable, or what it is without one.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 32); err == nil {
		return n
	}
	return otherwise
}
