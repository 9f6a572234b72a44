package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// directTests are what is run again with doorbells that are not trapped: what posts, and what dies
// or stalls. TestWriteABI is not among them: it makes a new libibverbs use what only an old one
// does, nor are those that kill programs without traffic. TestNewerRDMACore is, in the full run:
// newer programs have direct doorbells in TestMPI and TestUCXNewer, too.
var directTests = map[string][]string{
	"posts": {"TestPingpong", "TestPerftest", "TestRDMACore", "TestNewerRDMACore", "TestLanding", "TestManyPairs",
		"TestTimerSignals", "TestOrdinaryUsers"},
	"dies": {"TestKillProgram", "TestKillPeer", "TestKillFront", "TestKillKeeper", "TestKillDaemon", "TestStopDaemon", "TestStall"},
}

// directRaceTests are those of them that the race detector sees.
var directRaceTests = map[string][]string{"posts": {"TestPingpong", "TestManyPairs"}}

// TestDirect runs this binary again, with daemons that trap no doorbell where the
// choice is theirs.
func TestDirect(t *testing.T) {
	besideOthers(t)
	again(t, "posts")
}

// TestDirectDeaths is the other half, so that one half can run beside the other.
func TestDirectDeaths(t *testing.T) {
	besideOthers(t)
	again(t, "dies")
}

// again runs some of the tests in another process. They are one of the tests that run at once, so
// one of them runs at a time.
func again(t *testing.T, which string) {
	t.Helper()
	if doorbells == "direct" || native != "" {
		return // this is that run already, or one without gorxe
	}
	tests := directTests[which]
	switch {
	case race.Enabled:
		tests = directRaceTests[which]
	case !full:
		tests = slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return name == "TestNewerRDMACore" })
	}
	if len(tests) == 0 {
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^("+strings.Join(tests, "|")+")$", "-test.v", "-test.parallel", "1")
	cmd.Env = append(os.Environ(), "GORXE_E2E_DOORBELLS=direct", binaryEnv+"="+gorxe)
	out, err := cmd.CombinedOutput()
	passed := regexp.MustCompile(`(?m)^--- PASS`).FindAll(out, -1)
	if err != nil || len(passed) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d tests passed", len(passed))
}
