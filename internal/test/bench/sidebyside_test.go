package bench

import (
	"strings"
	"testing"
)

// TestPrintSideBySide: the table has a column for each device, and says what has no figure.
func TestPrintSideBySide(t *testing.T) {
	result := func(figures ...float64) *Result {
		r := &Result{Row: SideRows()[0]}
		for _, f := range figures {
			r.add(f)
			r.Processor.add(f / 2)
		}
		return r
	}
	failed := result()
	failed.Failed = "no such host"
	var b strings.Builder
	PrintSideBySide(&b, Machine{CPUs: 2, Arch: "amd64", Kernel: "6.1"}, [][]*Result{{result(4, 2, 3), failed}, {result(5), result()}})
	_, table, _ := strings.Cut(b.String(), "\n\n")
	const want = `| programs | what | rxe0 | mlx5_0 | daemon, a message: rxe0 | mlx5_0 |
|---|---|--:|--:|--:|--:|
| run | ` + "`ib_write_lat/2B`" + `, µs | 3.0 (2.0 to 4.0) | 5.0 | 1.5 (1.0 to 2.0) | 2.5 |
| run | ` + "`ib_write_lat/2B`" + `, µs | failed | - | failed | - |
`
	if table != want {
		t.Errorf("got\n%s\nwant\n%s", table, want)
	}
	at := place{server: &daemon{device: "mlx5_0"}}
	if argv := at.named([]string{"ib_write_lat", "-d", "rxe0"}); argv[2] != "mlx5_0" {
		t.Errorf("the command line is %v", argv)
	}
}
