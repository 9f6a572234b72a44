package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/test/must"
)

// attacks are those of testdata/hostile.c, and kinds of memory are those of testdata/unanswered.c.
// A program fails if its attack had no effect.
var (
	attacks = []string{"ptrace", "files", "limits", "undumpable", "chroots", "mounts", "filters", "pids", "ia32"}
	memory  = []string{"fuse", "userfaultfd"}
)

// hostileRounds is how often each attacker repeats its attack before it ends.
const hostileRounds = 3

// TestHostile: two hostile users attack a daemon with many programs at once. The checked
// exchanges of an honest user succeed meanwhile, and the attackers leave nothing behind.
// GORXE_HOSTILE=DURATION goes on for that long.
func TestHostile(t *testing.T) {
	rounds := strconv.Itoa(hostileRounds)
	besideHostile(t, "rxe0", func(d *daemon, users []*host) (attackers []*proc) {
		bin, unanswered, node := compile(t, "hostile"), compile(t, "unanswered"), userfaultfdNode(t)
		for _, user := range users {
			for _, attack := range attacks {
				attackers = append(attackers, d.runAs(t, user, bin, attack, rounds))
			}
			for _, kind := range memory {
				attackers = append(attackers, d.runAs(t, user, unanswered, kind, "rxe0", rounds, node))
			}
		}
		// Only root chooses process numbers.
		return append(attackers, d.run(t, bin, "reuse", rounds))
	})
}

// TestHostileMLX5: the same with programs that write nonsense where an adapter looks. The daemon
// counts their queues.
func TestHostileMLX5(t *testing.T) {
	if native != "" {
		return
	}
	d := besideHostile(t, "mlx5_0", func(d *daemon, users []*host) (attackers []*proc) {
		for _, user := range users {
			attackers = append(attackers, d.runAs(t, user, compile(t, "mlx5hostile"), "mlx5_0", strconv.Itoa(hostileRounds), userfaultfdNode(t)))
		}
		return attackers
	})
	if d != nil && d.counter("queues_scribbled") == 0 {
		t.Error("the daemon counts no scribbled queue")
	}
}

// watchedAttacks are those of testdata/watched.c.
var watchedAttacks = []struct {
	name   string
	rank   rank
	device string // only with this one; empty: any
}{
	{"stacks", standard, "rxe0"}, {"leave", standard, ""}, {"pages", standard, "mlx5_0"}, {"limits", standard, "mlx5_0"}, {"names", standard, "rxe0"},
	{"stacks", complete, "mlx5_0"}, {"pages", complete, "rxe0"}, {"limits", complete, "rxe0"}, {"names", complete, "mlx5_0"},
	{"threads", complete, ""}, {"stops", complete, ""}, {"contexts", complete, ""}, {"forks", complete, ""}, {"faults", complete, "mlx5_0"},
}

// TestHostileWatched: programs that the sanitizer watches confuse it. Another user's exchange
// succeeds meanwhile, and that user's sanitizer has nothing to say of theirs.
func TestHostileWatched(t *testing.T) {
	need(t, "ibv_rc_pingpong")
	notNative(t, "a sanitizer")
	bin := compile(t, "watched")
	for device, like := range map[string][]string{"rxe0": nil, "mlx5_0": {"--like", "connectx6"}} {
		if !selection.takes(standard) {
			continue
		}
		t.Run(device, func(t *testing.T) {
			a, _ := twoHosts(t, 1500)
			d := startDaemon(t, a, append(like, "--device", device+"=eth0", "--socket-mode", "0666")...)
			user := a
			if !oneUser {
				user = a.as(65534, 65534)
			}
			watched := func(h *host, to string, argv ...string) *proc {
				return start(t, h, d.env(), append([]string{gorxe, "run", "--sanitize=all", "--sanitize-exit=0", "--sanitize-to", to, "--"}, argv...)...)
			}
			var attackers []*proc
			for _, x := range watchedAttacks {
				if (x.device == "" || x.device == device) && (x.rank == standard || full) {
					attackers = append(attackers, watched(user, os.DevNull, bin, x.name, device))
				}
			}
			dir := t.TempDir()
			honest := func(name string) func(t *testing.T, argv ...string) *proc {
				return func(_ *testing.T, argv ...string) *proc { return watched(a, filepath.Join(dir, name), argv...) }
			}
			o := topology{server: honest("server"), client: honest("client"), host: a}
			o.exchange(t, "ibv_rc_pingpong", "-d", device, "-p", "PORT", "-g", strconv.Itoa(gidIPv4), "-c", "-n", "200", "-s", "4096").good(t)
			for _, p := range attackers {
				p.ok()
			}
			for _, name := range []string{"server", "client"} {
				var report sanitize.Report
				must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile(filepath.Join(dir, name))), &report))
				for i := range report.Findings {
					if f := &report.Findings[i]; f.Program != "ibv_rc_pingpong" || f.Level == sanitize.Error {
						t.Errorf("the %s is told: %s of %s", name, f.Brief(), f.Program)
					}
				}
			}
		})
	}
}

// besideHostile starts attackers again and again, with a device of that name. It returns no daemon
// if the selection leaves the test out.
func besideHostile(t *testing.T, device string, start func(d *daemon, users []*host) []*proc) *daemon {
	t.Helper()
	need(t, "ibv_rc_pingpong", "ibv_srq_pingpong", "ib_write_bw")
	long, _ := time.ParseDuration(os.Getenv("GORXE_HOSTILE")) // none: 0
	if long == 0 && !selection.takes(standard) {
		return nil
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", device+"=eth0", "--socket-mode", "0666")
	users := []*host{a}
	if !oneUser {
		users = []*host{a.as(65533, 65533), a.as(65534, 65534)}
	}
	honest := topology{server: d.run, client: d.run, host: d.host}
	programs, exchanges, refused := 0, 0, make(map[string]int)
	for began := time.Now(); exchanges == 0 || time.Since(began) < long; {
		attackers := start(d, users)
		for _, argv := range [][]string{
			{"ibv_rc_pingpong", "-d", device, "-p", "PORT", "-g", "1", "-c", "-n", "300", "-s", "4096"},
			{"ib_write_bw", "-d", device, "-F", "-x", "1", "-p", "PORT", "-n", "2000", "-s", "65536"},
			{"ibv_srq_pingpong", "-d", device, "-p", "PORT", "-g", "1", "-c", "-n", "300", "-s", "1024"},
		} {
			honest.exchange(t, argv...).good(t)
			exchanges++
		}
		for _, p := range attackers {
			if strings.Contains(p.ok(), "refused") {
				refused[p.cmd.Args[slices.Index(p.cmd.Args, "--")+2]]++
			}
		}
		programs += len(attackers)
	}
	t.Logf("%d attackers, %d honest exchanges; the kernel refused %v", programs, exchanges, refused)
	return d
}

// userfaultfdNode makes a device node of userfaultfd that every user may open, if the kernel has
// that device and this process may make nodes. Without it only root has such memory, unless
// vm.unprivileged_userfaultfd is set.
func userfaultfdNode(t *testing.T) string {
	t.Helper()
	path := filepath.Join(scratch, "userfaultfd")
	os.Remove(path) //nolint:errcheck // of an earlier run of the test, if any
	var st unix.Stat_t
	if err := unix.Stat("/dev/userfaultfd", &st); err != nil {
		return path
	}
	if err := unix.Mknod(path, unix.S_IFCHR, int(st.Rdev)); err != nil {
		t.Logf("a node of userfaultfd: %v", err)
		return path
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
