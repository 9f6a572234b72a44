package e2e

import (
	"slices"
	"strings"
	"testing"
)

// zeroCopy are the environment with which UCX uses verbs alone, says which protocols it found, and
// copies nothing by choice.
var zeroCopy = []string{"env", "UCX_TLS=rc_verbs,ud_verbs", ucxDevices("rxe0"), "UCX_PROTO_ENABLE=y", "UCX_PROTO_INFO=y", "UCX_ZCOPY_THRESH=0"}

// rmaProtocol is the row of the longest messages in what UCX says of an operation.
func rmaProtocol(out, operation string) string {
	var row string
	in := false
	for line := range strings.Lines(out) {
		switch cells := strings.Split(line, "|"); {
		case strings.Contains(line, "remote memory "):
			in = strings.Contains(line, operation)
		case in && len(cells) > 3 && strings.Contains(cells[1], "..inf"):
			row = strings.Join(strings.Fields(cells[2]+" "+cells[3]), " ")
		}
	}
	return row
}

// TestUCXZeroCopy: NIXL asks UCX for RMA that is not emulated. UCX finds it over RC, and moves 4
// MiB without a copy.
func TestUCXZeroCopy(t *testing.T) {
	besideOthers(t)
	need(t, "ucx_info", "ucx_perftest")
	if !selection.takes(standard) || native != "" {
		return
	}
	d := oneRun(t, "127.0.0.1")
	o := topology{both: d.pair, host: d.host}
	info := d.run(t, slices.Concat(zeroCopy, []string{"ucx_info", "-d", "-t", "rc_verbs"})...).ok()
	for _, c := range []string{"put_zcopy", "get_zcopy"} {
		if !strings.Contains(info, c+":") {
			t.Errorf("ucx_info has no %s:\n%s", c, info)
		}
	}
	for test, operation := range map[string]string{"ucp_put_bw": "by ucp_put*(multi)", "ucp_get": "by ucp_get*(multi)"} {
		argv := slices.Concat(zeroCopy, ucxPair("-t", test, "-s", "4194304", "-n", "4", "-w", "1", "-p", "PORT"))
		d.carried(t, messages(4*4<<20/4096), func() {
			out := o.exchange(t, argv...)
			if row := rmaProtocol(out.good(t), operation); row != "zero-copy rc_verbs/rxe0:1" {
				t.Errorf("%s: %q\n%s\n%s", test, row, out.client.Out, out.server.Out)
			}
		})
	}
}
