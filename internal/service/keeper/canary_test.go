package keeper

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A canary tells what the group had, whatever became of a signal on its way to the
// keeper or to the front.
func TestCanary(t *testing.T) {
	by := func(pid int32, s unix.Signal) arrival { return arrival{Signal: s, PID: pid} }
	key := arrival{Signal: unix.SIGTSTP, Code: 0x80}
	const shell, other = 10, 20
	fg := by(shell, unix.SIGCONT)
	usr1, usr2, term := by(shell, unix.SIGUSR1), by(shell, unix.SIGUSR2), arrival{Signal: unix.SIGTERM}
	// What the keeper sees before the front's next notice, how far that has heard,
	// what it tells, and which of it the group had.
	type step struct {
		seen  []arrival
		heard int
		told  []arrival
		had   []bool
	}
	list := func(a ...arrival) []arrival { return a }
	tests := map[string][]step{
		"group":                 {{list(usr1, usr2), 0, list(usr2, usr1), []bool{true, true}}},
		"alone":                 {{nil, 0, list(usr1), []bool{false}}},
		"once each":             {{list(usr1), 0, list(usr1), []bool{true}}, {nil, 0, list(usr1), []bool{false}}},
		"another sender":        {{list(usr1), 0, list(by(other, unix.SIGUSR1)), []bool{false}}},
		"terminal":              {{list(key), 0, list(key), []bool{true}}},
		"real-time":             {{list(by(shell, 40), by(shell, 40)), 0, list(by(shell, 40), by(shell, 40)), []bool{true, true}}},
		"without a sender":      {{list(term), 0, list(term), []bool{true}}},
		"fg, then key":          {{list(fg, key), 0, list(fg, key), []bool{true, true}}},
		"key takes back fg":     {{list(key), 0, list(fg, key), []bool{true, true}}},
		"fg takes back key":     {{list(fg), 0, list(key, fg), []bool{true, true}}},
		"the same in notices":   {{list(key), 0, list(fg), []bool{true}}, {nil, 0, list(key), []bool{true}}},
		"taken back from front": {{list(key, fg), 0, list(fg), []bool{true}}, {nil, 0, list(key), []bool{false}}},
		"two keys seen as one": {
			{list(key), 0, list(key), []bool{true}},
			{nil, 0, list(key), []bool{true}},
			{nil, 1, list(key), []bool{false}},
		},
		// The front got another SIGUSR1 first, by another sender.
		"never told of": {
			{list(usr1), 0, list(by(other, unix.SIGUSR1)), []bool{false}},
			{nil, 1, list(usr1), []bool{false}},
		},
		"told of late": {
			{list(usr1), 0, list(by(other, unix.SIGUSR1)), []bool{false}},
			{nil, 0, list(usr1), []bool{true}},
		},
		// Caught signals may come late even if the front has looked, unless it settled.
		"caught late": {
			{nil, 0, list(usr1), []bool{false}},
			{list(term), 1, list(usr1), []bool{false}},
			{nil, 1, list(term), []bool{true}},
		},
		"caught never": {
			{list(term), 0, list(usr1), []bool{false}},
			{nil, 1, list(usr1), []bool{false}},
			{nil, 2, list(term), []bool{false}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			c := canary{in: &inbox{fd: -1, set: maskOf([]unix.Signal{unix.SIGTERM})}}
			for i, s := range steps {
				c.note(s.seen...)
				c.hear(s.heard)
				for j, a := range s.told {
					if got := c.groupHad(a, s.heard); got != s.had[j] {
						t.Errorf("notice %d: the group had %+v: %v", i+1, a, got)
					}
				}
				c.dealt(i + 1)
			}
		})
	}
}
