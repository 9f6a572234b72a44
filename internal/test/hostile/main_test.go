package hostile

import (
	"fmt"
	"os"
	"testing"
)

// roles are what the test's binary does as another process.
var roles = map[string]func(args []string) error{
	"flood": floodRole,
}

// roleEnv names the role.
const roleEnv = "GORXE_HOSTILE_ROLE"

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
