package pair

import (
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

// TestBusyPort: only hosts of their own have TCP ports of their own.
func TestBusyPort(t *testing.T) {
	for _, c := range []Config{{}, {Alone: true}, {Hosts: true}} {
		if got := c.busyPort(); strings.Contains(got, "--hosts gives this pair ports") == c.Hosts || strings.Contains(got, "--private does not") != c.Alone {
			t.Errorf("%+v: %q", c, got)
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
