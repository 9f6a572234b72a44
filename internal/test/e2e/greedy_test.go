package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const greedyMetrics = 9879 // the port of --metrics

// A greed is what ordinary users take of what all users share.
type greed struct {
	name string
	// script of a shell. GREEDY is testdata/greedy.c, STOP the file that ends it, HOST the daemon's
	// address, PORT one at which an honest program listens, and SESSIONS a number of sessions. RUN
	// is `gorxe run`.
	script string
}

// apart is the first attack that another user makes than those before it: the user's ports, ids and
// descriptors are taken.
const apart = 5

// sizes are rules that concern no packet: of these a session may have many.
const sizes = `$(i=100; while [ $i -lt 1090 ]; do echo "packet drop,size=$i;"; i=$((i+1)); done)`

// try starts a program again that the user's share did not allow, until STOP. Status 9 means that
// an attack succeeded.
const try = `try() { while :; do RUN "$@"; c=$?; [ $c = 0 -o $c = 9 ] && exit $c; echo refused; [ -e STOP ] && exit 0; sleep 0.2; done; }; `

var greeds = []greed{
	// What a rule keeps ends with its session: the next one begins then.
	{"delayed packets", `echo attacking; n=0
		while [ ! -e STOP ]; do RUN --faults-may-miss --fault 'packet delay,time=1h' -- GREEDY stream STOP MESSAGES >/dev/null && n=$((n+1)); done
		[ $n = 0 ] || echo attacked $n times`},
	{"many rules", try + `GORXE_FAULTS="` + sizes + `"; export GORXE_FAULTS; try --faults-may-miss -- GREEDY stream STOP`},
	{"Q_Key", try + `try -- GREEDY qkey STOP PORT`},
	{"half-open connections", try + `try -- GREEDY halfopen STOP HOST`},
	{"slow metrics", `exec GREEDY metrics STOP HOST METRICS`},
	{"ports", try + `try -- GREEDY ports STOP`},
	{"peaks of channels", try + `try -- GREEDY peaks STOP`},
	{"idle sessions", `i=0; while [ $i -lt SESSIONS ]; do RUN -- GREEDY idle STOP & i=$((i+1)); done; echo attacking; wait`},
	{"forged netlink", `exec env ` + roleEnv + `=forge FORGER`},
}

// TestHostileGreed: ordinary users without capabilities take as much as they can of what the users
// of a daemon share, and forge. The checked exchanges of another ordinary user succeed meanwhile.
// Nothing is left, and no memory of what was kept. GORXE_HOSTILE=DURATION goes on for that long.
// The users take turns.
func TestHostileGreed(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw", "rping", "ibv_devinfo", "prlimit")
	long, _ := time.ParseDuration(os.Getenv("GORXE_HOSTILE")) // none: 0
	if native != "" || long == 0 && !selection.takes(standard) {
		return
	}
	if oneUser {
		t.Log("not as an ordinary user: it takes root to be three others")
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemonAt(t, a, []string{"prlimit", "--nofile=4096:4096"}, newSocket(t), "--device", "rxe0=eth0", "--socket-mode", "0666",
		"--doorbells", "auto", "--user-memory", "128MiB", "--metrics", fmt.Sprintf("%s:%d", a.addr, greedyMetrics))
	g := greedyRound{d: d, honest: a.as(65532, 65532), users: []*host{a.as(65533, 65533), a.as(65534, 65534)}, sessions: 4, messages: 5000, pings: "20", under: []string{"nice", "-n", "19"}, attacked: make(map[string]int),
		bin: compile(t, "greedy"), forger: copySelf(t)}
	again := compile(t, "descriptors")
	if long > 0 {
		g.sessions, g.messages, g.pings, g.under = 60, 100_000, "100", nil
	}
	rounds, warm, most := 0, 0, 0
	for began := time.Now(); rounds == 0 || time.Since(began) < long; rounds++ {
		if t.Failed() {
			return
		}
		end := g.attack(t)
		g.exchanges(t, again)
		most = max(most, d.memory(t))
		end()
		d.idle()
		if rounds == 0 {
			warm = d.memory(t)
		}
	}
	now := d.memory(t)
	for _, x := range greeds {
		if g.attacked[x.name] == 0 {
			t.Errorf("the attack %s has no effect", x.name)
		}
	}
	t.Logf("%d rounds; %v; the daemon has %d KiB, had %d after the first round, and %d at most", rounds, g.attacked, now, warm, most)
	if limit := 1 << 20; most > limit || now > warm+256<<10 {
		t.Errorf("the daemon has %d KiB, had %d after the first round, and %d at most", now, warm, most)
	}
}

// greedyRound is a round of attacks.
type greedyRound struct {
	d           *daemon
	honest      *host
	users       []*host
	sessions    int
	messages    int            // of a session that delays them
	pings       string         // and channels, at a time, of the honest user
	under       []string       // a command that executes the attackers
	attacked    map[string]int // how many took effect
	bin, forger string
	port        int // of the honest server of RDMA CM
	rounds      int
}

// attack starts all attackers and returns when they are at it. What it returns ends them.
func (g *greedyRound) attack(t *testing.T) (end func()) {
	t.Helper()
	g.port = g.honest.nextPort()
	g.rounds++
	stop := filepath.Join(scratch, "stop-"+strconv.Itoa(g.rounds))
	fill := strings.NewReplacer("GREEDY", g.bin, "STOP", stop, "HOST", g.d.host.addr, "PORT", strconv.Itoa(g.port), "MESSAGES", strconv.Itoa(g.messages), "SESSIONS",
		strconv.Itoa(g.sessions), "RUN", gorxe+" run", "METRICS", strconv.Itoa(greedyMetrics), "FORGER", g.forger)
	attackers := make(map[*proc]string)
	for i, user := range g.users {
		for j, x := range greeds {
			if (i+j/apart+g.rounds)%len(g.users) != 0 {
				continue
			}
			attackers[start(t, user, g.d.env(), slices.Concat(g.under, []string{"sh", "-c", fill.Replace(x.script)})...)] = x.name
		}
	}
	for p, name := range attackers {
		at := func() bool {
			return strings.Contains(p.out.String(), "attacking") || strings.Contains(p.out.String(), "forging")
		}
		if !until(programLimit, func() bool { return at() || p.ended() }) || !at() {
			t.Fatalf("%s: %s", name, p.describe())
		}
	}
	return func() {
		t.Helper()
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for p, name := range attackers {
			if name == "forged netlink" { // it goes on for ever
				g.attacked[name]++
				p.killTree()
				continue
			}
			code := p.wait()
			if strings.Contains(p.out.String(), "attacked") {
				g.attacked[name]++
			}
			if code != 0 {
				t.Errorf("%s: exit status %d\n%s", name, code, tail(p.out.String()))
			}
		}
	}
}

// exchanges are those of the honest user.
func (g *greedyRound) exchanges(t *testing.T, again string) {
	t.Helper()
	run := func(t *testing.T, argv ...string) *proc { return g.d.runAs(t, g.honest, argv...) }
	o := topology{server: run, client: run, host: g.honest, daemon: g.d}
	pings := []string{"rping", "-a", g.honest.addr, "-p", strconv.Itoa(g.port), "-C", g.pings, "-V"}
	server := run(t, append(pings, "-s")...)
	o.await(t, listensCM, server, g.port)
	client := run(t, append(pings, "-c")...)
	o.exchange(t, "ib_write_bw", "-d", "rxe0", "-F", "-x", "1", "-p", "PORT", "-n", "1000", "-s", "65536").good(t)
	client.ok()
	server.ok()
	o.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-p", "PORT", "-g", "1", "-c", "-n", "200", "-s", "4096").good(t)
	for _, argv := range [][]string{{"ibv_devinfo"}, {"rdma", "link"}} {
		if out := run(t, argv...).ok(); !strings.Contains(out, "rxe0") {
			t.Errorf("%v:\n%s", argv, out)
		}
	}
	if out := run(t, again, "again", g.pings).ok(); out != "ok\n" {
		t.Errorf("channels of the honest user: %s", out)
	}
	if len(scrape(t, g.d.host, fmt.Sprintf("%s:%d", g.d.host.addr, greedyMetrics))) == 0 {
		t.Error("no metrics")
	}
}

// copySelf copies this binary to where other users can execute it.
func copySelf(t *testing.T) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(scratch, "forger")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
