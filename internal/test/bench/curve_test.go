package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
)

// TestCurvePoint measures two pairs at once in each place, and looks at nothing but that there are
// figures.
func TestCurvePoint(t *testing.T) {
	if race.Enabled {
		return // as TestRun
	}
	cfg := Config{Gorxe: buildGorxe(t), Target: time.Millisecond, Progress: t.Output()}
	for i, place := range []string{OneDaemon, TwoDaemons} {
		r := curveRows(place)[i*3] // a rate, and a latency
		p, err := curvePoint(t.Context(), cfg, t.TempDir(), r, 2)
		if errors.Is(err, errNoHosts) && os.Getenv("CI") == "" {
			t.Log(err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Figure <= 0 || p.Library <= 0 || p.UDP <= 0 || p.Processors <= 0 {
			t.Errorf("%+v", p)
		}
		var text bytes.Buffer
		PrintCurve(&text, thisMachine(), []Point{p})
		if !strings.Contains(text.String(), p.Name()) || strings.Contains(text.String(), "failed") {
			t.Errorf("table:\n%s", &text)
		}
	}
}

func TestStates(t *testing.T) {
	stem := filepath.Join(t.TempDir(), "looks")
	for name, text := range map[string]string{".a.1": `{"state":"stream"}` + "\n" + `{"state":"stream"}` + "\n", ".b.1": `{"state":"idle"}` + "\n{\"sta"} {
		if err := os.WriteFile(stem+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := states(stem)
	if err != nil || shares(found) != "stream 67 %, idle 33 %" {
		t.Errorf("%v, %v", shares(found), err)
	}
}

// TestAtOnce: rates add up, and of latencies the median counts. One error is an error of all.
func TestAtOnce(t *testing.T) {
	each := func(i int) (float64, error) { return float64(i + 1), nil }
	if sum, err := atOnce(4, Messages, each); err != nil || sum != 10 {
		t.Errorf("%v, %v", sum, err)
	}
	if median, err := atOnce(4, Latency, each); err != nil || median != 2.5 {
		t.Errorf("%v, %v", median, err)
	}
	wrong := errors.New("wrong")
	if _, err := atOnce(3, Messages, func(i int) (float64, error) { return 1, []error{nil, wrong, nil}[i] }); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
}

func TestArgsFor(t *testing.T) {
	rows := curveRows(OneDaemon)
	if args := rows[0].argsFor(2*time.Second, 16); !slices.Contains(args, "-D") || slices.Contains(args, "-n") || slices.Contains(args, "-N") {
		t.Errorf("%q", args)
	}
	if args := rows[3].argsFor(2*time.Second, 16); !slices.Contains(args, "-n") || slices.Contains(args, "-D") {
		t.Errorf("%q", args)
	}
}
