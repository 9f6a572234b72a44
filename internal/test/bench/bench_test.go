package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

func TestMain(m *testing.M) {
	if err := Role(os.Args[1:]); err == nil {
		return
	} else if !errors.Is(err, ErrNoRole) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// What perftest 6.06 prints.
const (
	preamble = `---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : rxe0
 Number of qps   : 1		Transport type : IB
 Mtu             : 4096[B]
---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0xedccb7 PSN 0x4ba1a1 RKey 0x634b4542 VAddr 0x005568b26d2000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:09:09:09
---------------------------------------------------------------------------------------
`
	bwHead  = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
	bwRow   = " 8          5000             0.96               0.33   \t\t   0.043520\n"
	latHead = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	latRow  = " 2       1000          7.94           23987.23      173.77   \t       797.81      \t2542.93\t\t15895.00 \t\t23987.23\n"
	end     = "---------------------------------------------------------------------------------------\n"
)

func TestParse(t *testing.T) {
	bw := Outcome{Size: 8, Iterations: 5000, Average: 0.33, Rate: 43520}
	tests := []struct {
		name, output string
		want         Outcome
		err          string // a part of it
	}{
		{"bandwidth", preamble + bwHead + bwRow + end, bw, ""},
		{"bandwidth of perftest 25.01", preamble + strings.ReplaceAll(bwHead, "MB", "MiB") + bwRow + end, bw, ""},
		{"latency", preamble + latHead + latRow + end, Outcome{Size: 2, Iterations: 1000, Typical: 173.77, P99: 15895}, ""},
		{"no deviation", latHead + strings.Replace(latRow, "2542.93", "-nan", 1), Outcome{Size: 2, Iterations: 1000, Typical: 173.77, P99: 15895}, ""},
		{"a warning in between", preamble + bwHead + "Conflicting CPU frequency values detected\n" + bwRow + end, bw, ""},
		{"without a peak", bwHead + strings.Replace(bwRow, "0.96", "0.00", 1), bw, ""},
		{"nothing", "", Outcome{}, errNoFigures.Error()},
		{"failed before the table", preamble + "Couldn't connect to 10.0.0.1:18515\n", Outcome{}, errNoFigures.Error()},
		{"failed in the table", preamble + bwHead + " Completion with error at client\n", Outcome{}, errNoFigures.Error()},
		{"cut short", bwHead + " 8          5000             0.96\n", Outcome{}, "3 figures"},
		{"other units", strings.ReplaceAll(bwHead, "MB", "Gb") + bwRow, Outcome{}, "unknown table"},
		{"figures under no titles", bwRow, Outcome{}, errNoFigures.Error()},
		{"figures of the other kind", latHead + bwRow, Outcome{}, "5 figures"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(test.output)
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(preamble + bwHead + bwRow + end)
	f.Add(latHead + latRow)
	f.Fuzz(func(t *testing.T, output string) {
		if o, err := Parse(output); err != nil && o != (Outcome{}) {
			t.Errorf("figures besides error %v: %+v", err, o)
		}
	})
}

func TestFigure(t *testing.T) {
	bw := Row{Kind: Bandwidth, Size: 65536}
	tests := []struct {
		row  Row
		out  Outcome
		want float64
		each time.Duration
	}{
		{bw, Outcome{Size: 65536, Rate: 16384}, 1, 61035},
		{Row{Kind: Messages, Size: 8}, Outcome{Size: 8, Rate: 5e5}, 5e5, 2 * time.Microsecond},
		{Row{Kind: Latency, Size: 2}, Outcome{Size: 2, Typical: 9.5}, 9.5, 9500},
		{bw, Outcome{Size: 4096, Rate: 16384}, 0, 0},
		{bw, Outcome{Size: 65536}, 0, 0},
	}
	for _, test := range tests {
		v, err := test.row.figure(test.out)
		if math.Abs(v-test.want) > 1e-9 || (err == nil) != (test.want != 0) {
			t.Errorf("%+v: %v, %v, want %v", test.out, v, err, test.want)
		}
		if err == nil && test.row.each(v) != test.each {
			t.Errorf("%+v: a message takes %v, want %v", test.out, test.row.each(v), test.each)
		}
	}
}

func TestScale(t *testing.T) {
	tests := []struct {
		n            int
		target, each time.Duration
		want         int
	}{
		{128, time.Second, time.Millisecond, 1024}, // a whole number of queues
		// never less than the first try
		{4096, time.Second, time.Second, 4096},
		{128, time.Second, 0, 128000},                // nor far more
		{128, time.Second, time.Microsecond, 128000}, //
		// 50,000 and the rest of a queue
		{4096, 300 * time.Millisecond, 6 * time.Microsecond, 50048},
	}
	for _, test := range tests {
		if got := scale(test.n, test.target, test.each); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

// TestRows: every row has a name of its own, and item by item what was asked for.
func TestRows(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rows() {
		if names[r.Name()] {
			t.Errorf("two rows are called %s", r.Name())
		}
		names[r.Name()] = true
	}
	if len(names) != 3*(3*3*2+4+4) {
		t.Errorf("%d rows", len(names))
	}
	got := Select(Rows(), regexp.MustCompile("^two/ib_write_bw/(8B|4KiB/mtu1024)"))
	var list []string
	for _, r := range got {
		list = append(list, r.Name())
	}
	if want := "two/ib_write_bw/4KiB/mtu1024 two/ib_write_bw/8B two/ib_write_bw/8B/post_list=32"; strings.Join(list, " ") != want {
		t.Errorf("selected: %v", list)
	}
}

func TestNumbers(t *testing.T) {
	tests := []struct {
		kind Kind
		v    float64
		want string
	}{
		{Messages, 1234567, "1,230,000"}, {Messages, 123456, "123,000"}, {Messages, 12, "12"},
		{Bandwidth, 1.234, "1.23"}, {Latency, 9.87, "9.9"}, {Call, 6.54, "6.5"},
	}
	for _, test := range tests {
		if got := number(test.kind, test.v); got != test.want {
			t.Errorf("%v %s: %s, want %s", test.v, test.kind, got, test.want)
		}
	}
	var s Series
	for _, v := range []float64{3, 1, 10, 2} {
		s.add(v)
	}
	if s.Median != 2.5 || s.Low != 1 || s.High != 10 || s.spread() != 3.6 {
		t.Errorf("%+v", s)
	}
}

// buildGorxe builds gorxe for perftest, which it looks for.
func buildGorxe(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"ib_write_lat", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Missing(t, "%s is not installed: run scripts/setup.sh", tool)
		}
	}
	gorxe := filepath.Join(t.TempDir(), "gorxe")
	if out, err := exec.Command("go", "build", "-o", gorxe, "github.com/gorxe/gorxe/cmd/gorxe").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return gorxe
}

// TestRun measures one row in each place, as briefly as it can be done, and looks
// at nothing but that there are figures.
func TestRun(t *testing.T) {
	if race.Enabled {
		return // the programs are not compiled with the race detector
	}
	gorxe := buildGorxe(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Gorxe: gorxe, Self: []string{self}, Rows: Select(Rows(), regexp.MustCompile("ib_write_lat")),
		Repetitions: 1, Target: time.Millisecond, Progress: t.Output(),
	}
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := 3
	if rep.Missing != "" {
		if os.Getenv("CI") != "" {
			t.Error(rep.Missing)
		}
		t.Log(rep.Missing)
		want = 2
	}
	if len(rep.Rows) != want {
		t.Errorf("%d rows, want %d", len(rep.Rows), want)
	}
	for _, r := range rep.Rows {
		if len(r.Samples) != 1 || r.Median <= 0 || r.OfUDP <= 0 || r.OfLibrary <= 0 || r.Calls <= 0 || (r.OfTwoRuns > 0) != (r.Place == OneRun) {
			t.Errorf("%+v", r)
		}
	}
	var text bytes.Buffer
	rep.Print(&text)
	if !strings.Contains(text.String(), "ib_write_lat/2B") || strings.Contains(text.String(), "NaN") {
		t.Errorf("table:\n%s", &text)
	}
	if _, err := json.Marshal(rep); err != nil {
		t.Error(err)
	}

	// The same row once more, to see where its time goes.
	cfg.Rows, cfg.Profiles = cfg.Rows[:1], t.TempDir()
	if rep, err = Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if made, _ := filepath.Glob(cfg.Profiles + "/*.pprof"); len(made) != 1 || len(rep.Baselines) != 0 {
		t.Errorf("profiles: %v, baselines: %v", made, rep.Baselines)
	}
}

// TestNoHosts: a user who may not make namespaces gets a message, and the other rows.
func TestNoHosts(t *testing.T) {
	got := make(chan error)
	go func() {
		// Never unlocked: the thread, which has no rights any more, ends here.
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			got <- err
			return
		}
		_, err := newTwoDaemons(t.Context(), Config{}, t.TempDir())
		got <- err
	}()
	if err := <-got; !errors.Is(err, errNoHosts) || !strings.Contains(err.Error(), "needs root") {
		t.Error(err)
	}
}
