package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// MPI and OpenSHMEM over UCX, started as their users do: mpirun, and so all the
// processes, under one `gorxe run`. All processes are on one host, where UCX takes
// shared memory unless UCX_TLS leaves it only the verbs transports.

// mpiRuns is how often TestMPIRepeated runs four processes on these processors. They have
// to end with the right data each time.
var mpiRuns = count("GORXE_MPI_RUNS", 2)

// repeatedRank: once is enough for a representative selection, and TestMPI runs four
// processes once.
func repeatedRank() rank {
	if os.Getenv("GORXE_MPI_RUNS") != "" {
		return standard
	}
	return complete
}

// parallel is a library for programs of several processes.
type parallel struct {
	name    string
	compile []string
	source  string // of the program, in testdata
	start   []string
	version []string
	word    string // in front of the version
	silent  bool   // UCX is told no device: it chooses one
}

// What Open MPI needs to be told: it takes UCX by itself only for adapters whose
// driver is called mlx… (opal_common_ucx_devices).
var (
	openMPI = parallel{
		name: "Open MPI", compile: []string{"mpicc.openmpi"}, source: "mpi",
		start:   []string{"mpirun.openmpi", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"},
		version: []string{"ompi_info", "--version"}, word: "Open MPI v",
	}
	mpich = parallel{
		name: "MPICH", compile: []string{"mpicc.mpich", "-Wno-stringop-overflow"}, source: "mpi",
		start:   []string{"mpirun.mpich"},
		version: []string{"mpichversion"}, word: "Version:",
	}
	// Open MPI 4.1.4 of Debian 12 crashes in shmem_finalize, whatever it runs on,
	// unless its component osc/rdma is left out. Open MPI 5.0.7 has no address for the
	// symmetric heap: each process chooses one by itself, and the start fails if it is not
	// free in another one (memheap_base_select.c). The address is the one of Open MPI 4.
	openSHMEM = parallel{
		name: "OpenSHMEM (Open MPI)", compile: []string{"oshcc"}, source: "shmem",
		start: []string{"oshrun", "--oversubscribe", "--mca", "osc", "^rdma",
			"--mca", "sshmem_base_start_address", "0xFF000000"},
		version: []string{"ompi_info", "--version"}, word: "Open MPI v",
	}
	parallels = []parallel{openMPI, mpich, openSHMEM}
)

// build compiles the library's program. A newer release runs it too: the libraries
// have kept their names.
func (p parallel) build(t *testing.T) string {
	t.Helper()
	need(t, p.compile[0], p.start[0])
	bin := filepath.Join(scratch, p.source+"-"+p.compile[0])
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	argv := slices.Concat(p.compile, []string{"-O2", "-Wall", "-o", bin, "testdata/" + p.source + ".c"})
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return bin
}

// command starts n processes of the program, of a release, over the devices. The program
// writes the file called result.
func (p parallel) command(t *testing.T, r release, n int, devices ...string) (argv []string, result string) {
	t.Helper()
	f, err := os.CreateTemp(scratch, p.source+"-result-")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Chmod(0o666); err != nil { // the program may be another user's
		t.Fatal(err)
	}
	argv = slices.Concat(p.start, []string{"-n", strconv.Itoa(n), r.path(p.build(t)), r.path(f.Name())})
	env := []string{"env", "UCX_TLS=ib", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	if !p.silent {
		env = append(env, ucxDevices(devices...))
	}
	return append(env, r.argv(argv...)...), f.Name()
}

// started is the command as a user types it, for the table.
func (p parallel) started() string {
	return "`UCX_TLS=ib UCX_NET_DEVICES=rxe0:1 " + strings.Join(p.start, " ") + " -n 4 PROGRAM`"
}

// exchanged is what the programs write at their end: how many bytes went from one process
// to another. It is in a file, because mpirun mingles the lines of the processes. UCX 1.18
// writes hundreds: flush(remote) is not supported on any device but mlx5.
var exchanged = regexp.MustCompile(`^(\d+) processes: all data right, (\d+) bytes exchanged\n$`)

// run runs n processes, and wants their data right and all of it carried by the
// devices.
func (p parallel) run(t *testing.T, d *daemon, r release, n int, devices ...string) {
	t.Helper()
	argv, result := p.command(t, r, n, devices...)
	var bytes uint64
	least := func() uint64 { return bytes / 4096 / uint64(len(devices)) * 4 / 5 }
	if len(devices) == 1 {
		least = func() uint64 { return bytes / 4096 }
	}
	d.carried(t, least, func() { bytes = p.right(t, d.run(t, argv...), result, n) })
}

// right wants the program to have written that n processes had the right data, and
// returns how many bytes they exchanged.
func (p parallel) right(t *testing.T, program *proc, result string, n int) uint64 {
	t.Helper()
	out := program.ok()
	said, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	m := exchanged.FindStringSubmatch(string(said))
	if m == nil || m[1] != strconv.Itoa(n) {
		t.Fatalf("%s: %q is not the end of %d processes with the right data:\n%s", program.name, said, n, out)
	}
	bytes, err := strconv.ParseUint(m[2], 10, 64)
	if err != nil || bytes == 0 {
		t.Fatalf("%s: %q bytes exchanged: %v", program.name, m[2], err)
	}
	return bytes
}

// TestMPI: messages of all sizes, collectives, one-sided operations and atomics.
func TestMPI(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	d := oneRun(t, "127.0.0.1")
	for _, r := range releases(t) {
		for _, p := range parallels {
			t.Run(p.name+"/"+r.name, func(t *testing.T) {
				for _, n := range []int{2, 4} {
					if !selection.takes(p.rank(r, n)) {
						continue
					}
					t.Run(strconv.Itoa(n), func(t *testing.T) { p.run(t, d, r, n, "rxe0") })
				}
				version := strings.TrimPrefix(r.version(t, p.word, p.version...), "v")
				works{p.name, version, p.started(), "2 and 4 processes: " + p.does()}.record(t)
			})
		}
	}
}

// rank is the rank of TestMPI with n processes of a release. A selection has four of each library
// and release, but two of a newer MPICH. Its processes poll without a pause, and four of them take
// a minute on two processors. TestMPITwoDevices and TestMPIOrdinaryUser have two of the installed
// release. The table of what works names both counts.
func (p parallel) rank(r release, n int) rank {
	want := 4
	if p.name == mpich.name && r.root != "" {
		want = 2
	}
	if n == want || *update {
		return standard
	}
	return complete
}

// does is what the library's program does.
func (p parallel) does() string {
	if p.source == "shmem" {
		return "put, get, atomics"
	}
	return "messages, collectives, one-sided operations"
}

// TestMPIRepeated: more processes than processors, many times.
func TestMPIRepeated(t *testing.T) {
	if native != "" || !selection.takes(repeatedRank()) {
		return
	}
	d := oneRun(t, "127.0.0.1")
	for _, p := range []parallel{openMPI, mpich} {
		t.Run(p.name, func(t *testing.T) {
			for i := range mpiRuns {
				if p.run(t, d, release{}, 4, "rxe0"); t.Failed() {
					t.Fatalf("run %d of %d", i+1, mpiRuns)
				}
			}
		})
	}
}

// TestMPITwoDevices: both devices carry a part of the data.
func TestMPITwoDevices(t *testing.T) {
	if native != "" || !selection.takes(standard) {
		return
	}
	d := oneRun(t, "127.0.0.1", "127.0.0.2")
	for _, p := range []parallel{openMPI, mpich} {
		t.Run(p.name, func(t *testing.T) { p.run(t, d, release{}, 2, "rxe0", "rxe1") })
	}
}

// TestMPIOrdinaryUser: with a device of the user's own, as `gorxe run` makes it.
func TestMPIOrdinaryUser(t *testing.T) {
	if native != "" || !selection.takes(standard) {
		return
	}
	need(t, "ip")
	h := newHost(t, "127.0.0.1")
	h.ip(t, "link set lo up")
	user, env := nobody(t, h)
	for _, p := range parallels {
		t.Run(p.name, func(t *testing.T) {
			argv, result := p.command(t, release{}, 2, "rxe0")
			argv = append([]string{gorxe, "run", "--device", "rxe0=127.0.0.1", "--"}, argv...)
			p.right(t, start(t, user, env, argv...), result, 2)
		})
	}
}

// TestMPIPortDown: of two devices, Open MPI leaves out the one whose port is down at the
// start, and the other one carries everything.
func TestMPIPortDown(t *testing.T) {
	need(t, "ip", "ibv_devinfo")
	if native != "" || !selection.takes(standard) {
		return
	}
	d := secondPort(t)
	d.setSecondPort(t, "down")
	before := d.books().packets()
	argv, result := openMPI.command(t, release{}, 2, "rxe0", "rxe1")
	bytes := openMPI.right(t, d.run(t, argv...), result, 2)
	after := d.books().packets()
	if got, want := after[0]-before[0], bytes/4096; got < want {
		t.Errorf("%d packets went over rxe0, want %d at least", got, want)
	}
	if after[1] != before[1] {
		t.Errorf("%d packets went over rxe1, whose port is down", after[1]-before[1])
	}
}
