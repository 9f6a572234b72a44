package pair

import (
	"slices"
	"strings"
	"testing"
)

func TestCode(t *testing.T) {
	for _, c := range []struct{ server, client, want int }{
		{0, 0, 0}, {3, 0, 3}, {0, 4, 4}, {3, 4, 4}, {130, 1, 1},
	} {
		if got := (Outcome{c.server, c.client}).Code(); got != c.want {
			t.Errorf("server %d and client %d: %d, want %d", c.server, c.client, got, c.want)
		}
	}
}

// TestBusyPort: a server that says that its port is taken is told what helps, and no other one.
// Only hosts of their own have TCP ports of their own.
func TestBusyPort(t *testing.T) {
	for _, taken := range []bool{true, false} {
		for _, c := range []Config{{}, {Alone: true}, {Hosts: true}} {
			got := c.busyPort(taken)
			if strings.Contains(got, "--hosts gives this pair ports") != (taken && !c.Hosts) || strings.Contains(got, "--private does not") != (taken && c.Alone) {
				t.Errorf("%v, %+v: %q", taken, c, got)
			}
		}
	}
}

// TestElsewhere: a client that reaches nobody learns where the server listened.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		unreached bool
		ports     []string
		said      bool
	}{
		{true, []string{"", "7"}, true}, {true, []string{""}, false}, {false, []string{"7"}, false},
	} {
		if err := elsewhere(c.unreached, slices.Clone(c.ports)); (err != nil) != c.said || c.said && !strings.HasSuffix(err.Error(), "listened on TCP port 7") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSameCommand: a client without an address is a second server, and fails.
func TestSameCommand(t *testing.T) {
	for _, c := range []struct {
		client []string
		code   int
		said   bool
	}{
		{[]string{"p", "-g", "1"}, 1, true}, {[]string{"p", "-g", "1"}, 0, false}, {[]string{"p", "-g", "1", "127.0.0.1"}, 1, false},
	} {
		config := Config{Server: []string{"p", "-g", "1"}, Client: c.client}
		if err := config.sameCommand(c.code); (err != nil) != c.said {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
