package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// directTests are what is run again with doorbells that are not trapped: what posts,
// what dies, and what stalls. TestWriteABI is not among them: it makes a new libibverbs
// use what only an old one does.
const directTests = "^(TestPingpong|TestPerftest|TestRDMACore|TestNewerRDMACore|TestKill.*|TestStopDaemon|TestStall|" +
	"TestLanding|TestManyPairs|TestTimerSignals|TestOrdinaryUsers)$"

// directRaceTests are those of them that the race detector sees.
const directRaceTests = "^(TestPingpong|TestKillDaemon|TestStall|TestManyPairs)$"

// TestDirect runs this binary again, with daemons that trap no doorbell where the
// choice is theirs. That run is one of the tests that run at once, so it has one at a time.
func TestDirect(t *testing.T) {
	besideOthers(t)
	if doorbells == "direct" || native != "" {
		return // this is that run already, or one without gorxe
	}
	tests := directTests
	if race.Enabled {
		tests = directRaceTests
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", tests, "-test.v", "-test.parallel", "1")
	cmd.Env = append(os.Environ(), "GORXE_E2E_DOORBELLS=direct")
	out, err := cmd.CombinedOutput()
	passed := regexp.MustCompile(`(?m)^--- PASS`).FindAll(out, -1)
	if err != nil || len(passed) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d tests passed", len(passed))
}
