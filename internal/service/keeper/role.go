package keeper

import (
	"os"
	"strconv"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TellRole tells the daemon the role of this process in the gorxe run around it, or that a role is
// stopped. Without a run around it, or if the daemon does not know roles, nothing is told: then
// reports name the processes by their numbers only.
func TellRole(role proto.Role) {
	session, err := strconv.ParseUint(os.Getenv(envSession), 10, 64)
	if err != nil || !Nested() {
		return
	}
	if paths, err := proto.Sockets(""); err == nil {
		_ = proto.TellRole(paths, session, role) // as above
	}
}
