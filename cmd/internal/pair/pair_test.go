package pair

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/program"
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

// TestNotReady: a server that says that its port is taken is told what helps, and one that connects
// that it is the client. Only hosts of their own have TCP ports of their own.
func TestNotReady(t *testing.T) {
	for _, wrote := range []program.Wrote{{}, {Taken: true}, {Unmet: true}, {Rejected: true}} {
		for _, c := range []Config{{}, {Alone: true}, {Hosts: true}} {
			got := c.notReady(wrote)
			if strings.Contains(got, "--hosts gives this pair ports") != (wrote.Taken && !c.Hosts) || strings.Contains(got, "--private does not") != (wrote.Taken && c.Alone) {
				t.Errorf("%+v, %+v: %q", wrote, c, got)
			}
			if strings.Contains(got, "the server's command comes before --") != (wrote.Unmet || wrote.Rejected) {
				t.Errorf("%+v, %+v: %q", wrote, c, got)
			}
		}
	}
}

// TestElsewhere: a client that reaches nobody learns where the server listened, and whether one end
// uses RDMA CM and the other TCP.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		wrote program.Wrote
		ports []string
		byCM  bool
		want  string // at the end; empty: nothing is said
	}{
		{program.Wrote{Unmet: true}, []string{"", "7"}, false, "listened on TCP port 7"},
		{program.Wrote{Unmet: true}, []string{""}, false, ""},
		{program.Wrote{}, []string{"7"}, true, ""},
		{program.Wrote{Rejected: true}, []string{"7"}, false, "tried RDMA CM, and the server listened on TCP port 7: with perftest, -R belongs to both commands or to neither"},
		{program.Wrote{Rejected: true}, nil, true, ""},
		{program.Wrote{Unmet: true}, nil, true, "tried TCP, and the server listened by RDMA CM: with perftest, -R belongs to both commands or to neither"},
		{program.Wrote{Unmet: true, Rejected: true}, nil, true, ""},
	} {
		if err := elsewhere(c.wrote, slices.Clone(c.ports), c.byCM); (err != nil) != (c.want != "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// endless is a server that goes on until stop is called.
type endless struct{ done chan struct{} }

func (e endless) Done() <-chan struct{}           { return e.done }
func (e endless) Running() (name string, pid int) { return "rping", 7 }

// TestAwait: the user learns once that a server goes on after its client, and which one.
func TestAwait(t *testing.T) {
	late := make(chan time.Time, 2)
	late <- time.Time{}
	late <- time.Time{}
	server := endless{make(chan struct{})}
	var said []string
	c := Config{Say: func(text string) {
		said = append(said, text)
		close(server.done)
	}}
	if !c.await(t.Context(), server, 3, late) || len(said) != 1 || !strings.Contains(said[0], "status 3") || !strings.Contains(said[0], "(rping, pid 7) still runs") || !strings.Contains(said[0], "--stop-server") {
		t.Errorf("%q", said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.await(ctx, endless{}, 0, nil) {
		t.Error("an interrupted wait has seen the end of the server")
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
