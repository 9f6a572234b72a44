package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/netns"
)

// topology is where the two programs of a case run.
type topology struct {
	name   string
	server launch
	client launch
	both   launch  // instead: one `gorxe run` with both in it
	host   *host   // of the server
	peer   *host   // of the client, if that is another one
	daemon *daemon // of the server
	device string
}

// outcome is what a pair of programs did.
type outcome struct{ server, client result }

type result struct {
	Code int    `json:"code"`
	Out  string `json:"out"`
}

// exchange runs a server and, when it listens, a client with the same arguments
// and the server's address. In argv, PORT stands for a TCP port.
func (o topology) exchange(t *testing.T, argv ...string) outcome {
	t.Helper()
	port := o.host.nextPort()
	server := slices.Clone(argv)
	for i, arg := range server {
		server[i] = strings.ReplaceAll(arg, "PORT", strconv.Itoa(port))
	}
	client := append(slices.Clone(server), o.host.addr)
	if o.both != nil {
		return o.exchangeInOne(t, port, server)
	}
	s := o.server(t, server...)
	s.listening(port)
	c := o.client(t, client...)
	defer func() {
		if t.Failed() {
			t.Logf("server: %s", s.describe())
		}
	}()
	out := outcome{client: result{Code: c.wait(), Out: c.out.String()}}
	out.server = result{Code: s.wait(), Out: s.out.String()}
	return out
}

func (o topology) exchangeInOne(t *testing.T, port int, argv []string) outcome {
	t.Helper()
	p := o.both(t, append([]string{strconv.Itoa(port), o.host.addr}, argv...)...)
	text := p.ok()
	var r [2]result
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(strings.TrimSpace(text), '\n')+1:]), &r); err != nil {
		t.Fatalf("%s: %v\n%s", p.name, err, text)
	}
	return outcome{server: r[0], client: r[1]}
}

// good wants both to have succeeded, and returns what the client wrote.
func (o outcome) good(t *testing.T) string {
	t.Helper()
	if o.server.Code != 0 || o.client.Code != 0 {
		t.Fatalf("server: exit status %d\n%s\nclient: exit status %d\n%s", o.server.Code, o.server.Out, o.client.Code, o.client.Out)
	}
	return o.client.Out
}

// topologies are the three ways in which two programs can meet. In native mode
// there is only the kernel's device.
func topologies(t *testing.T, flags ...string) []topology {
	t.Helper()
	if native != "" {
		h := &host{addr: "127.0.0.1"}
		run := func(t *testing.T, argv ...string) *proc { return start(t, h, nil, argv...) }
		return []topology{{name: "native", server: run, client: run, host: h, device: native}}
	}
	a, b := twoHosts(t, 4500)
	flags = append([]string{"--device", "rxe0=eth0"}, flags...)
	da, db := startDaemon(t, a, flags...), startDaemon(t, b, flags...)
	return []topology{
		{name: "one run", both: da.pair, host: a, daemon: da, device: "rxe0"},
		{name: "one daemon", server: da.run, client: da.run, host: a, daemon: da, device: "rxe0"},
		{name: "two daemons", server: da.run, client: db.run, host: a, peer: b, daemon: da, device: "rxe0"},
	}
}

// pair runs this binary under one `gorxe run`, and it the two programs.
func (d *daemon) pair(t *testing.T, args ...string) *proc {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return d.run(t, append([]string{"env", roleEnv + "=pair", self}, args...)...)
}

// play is the main function of this binary in a role.
func play(role string, args []string) int {
	switch role {
	case "pair":
		return playPair(args)
	case "look":
		return playLook()
	case "seek":
		return playSeek(args)
	case "numbers":
		return playNumbers(args)
	case "ask":
		return playAsk(args)
	case "storm":
		return playStorm()
	case "node":
		return playNode(args)
	case "netlink":
		return playNetlink(args)
	case "forge":
		return playForge()
	case "drop":
		return playDrop()
	case "reach":
		return playReach()
	case "rights":
		return playRights()
	case "xrc":
		return playXRC(args)
	default:
		fmt.Fprintf(os.Stderr, "e2e: no role %q\n", role)
		return 2
	}
}

// playPair runs PORT ADDRESS PROGRAM ARG... twice, as a server and as a client,
// and prints both results as a line of JSON.
func playPair(args []string) int {
	port, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	os.Unsetenv(roleEnv) //nolint:errcheck // the name is a good one
	addr, argv := args[1], args[2:]
	var so, co strings.Builder
	server := exec.Command(argv[0], argv[1:]...)
	server.Stdout, server.Stderr = &so, &so
	if err := server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	ended := make(chan struct{})
	go func() {
		server.Wait() //nolint:errcheck // ProcessState says it
		close(ended)
	}()
	gone := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	if !until(programLimit/2, func() bool { return gone() || netns.Listens(os.Getpid(), port) }) || gone() {
		server.Process.Kill() //nolint:errcheck // it may have ended
		<-ended
		fmt.Fprintf(os.Stderr, "e2e: %s does not listen:\n%s", argv[0], so.String())
		return 1
	}
	client := exec.Command(argv[0], append(slices.Clone(argv[1:]), addr)...)
	client.Stdout, client.Stderr = &co, &co
	if err := client.Run(); client.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		server.Process.Kill() //nolint:errcheck // it may have ended
		<-ended
		return 1
	}
	<-ended
	json.NewEncoder(os.Stdout).Encode([2]result{ //nolint:errcheck // the test misses it
		{Code: status(server.ProcessState), Out: so.String()},
		{Code: status(client.ProcessState), Out: co.String()},
	})
	return 0
}
