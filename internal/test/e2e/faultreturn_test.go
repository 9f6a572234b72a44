package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// returnScript runs a ping-pong that a rule ends, waits until the device is back, and runs another
// one. The client tries until the server listens.
const returnScript = `
events=$(mktemp)
stdbuf -oL ibv_asyncwatch -d rxe0 >$events & watch=$!
until grep -q 'async event FD' $events; do sleep 0.02; done
ibv_rc_pingpong -d rxe0 -g "$1" -p "$2" -n 50 $4; echo "first $?"
until grep -q event_type $events; do sleep 0.02; done
until ibv_devinfo -d rxe0 >/dev/null 2>&1; do sleep 0.02; done
kill $watch; cat $events; rm $events
until ibv_rc_pingpong -d rxe0 -g "$1" -p "$3" -n 50 $4; do sleep 0.1; done; echo "second"
`

// TestDeviceReturns: a rule removes the device from all sessions for a time. The programs of both
// lose it, get the event, and exchange messages again when it is back.
func TestDeviceReturns(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong", "ibv_devinfo", "ibv_asyncwatch", "stdbuf")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	first, second := d.host.nextPort(), d.host.nextPort()
	args := []string{"sh", "-c", returnScript, "sh", strconv.Itoa(gidIPv4), strconv.Itoa(first), strconv.Itoa(second)}
	s := d.run(t, args...)
	s.listening(first)
	const rule = "device remove,opcode=SEND,after=3,first=1,time=200ms,scope=device"
	c := start(t, d.host, d.env(), append(append([]string{gorxe, "run", "--fault", rule, "--"}, args...), d.host.addr)...)
	for _, p := range []*proc{c, s} {
		out := p.ok()
		for _, want := range []string{"Failed status Work Request Flushed Error (5)", "first 1\n", "event_type IBV_EVENT_DEVICE_FATAL (8)", "second\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q:\n%s", p.name, want, out)
			}
		}
	}
}
