package ucma

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// Reasons that several commands have. Package rdmacm has those of an id's state.
var (
	errAddrSize     = kernel.Refuse(unix.EINVAL, "addr", "has a length that is not that of its family", "use AF_INET, AF_INET6 or AF_IB")
	errReserved     = malformed("a reserved field", "is not 0")
	errOtherChannel = kernel.Refuse(unix.EINVAL, "id", "is of another event channel", "use the channel that it was created with or migrated to")
	errNoDevice     = kernel.Refuse(unix.EINVAL, "id", "has no device", "bind it to an address, or resolve one")
	errOptionSize   = kernel.Refuse(unix.EINVAL, "optlen", "is not the size of the option", "see rdma_set_option(3)")
)

// malformed refuses a command that librdmacm does not send.
func malformed(arg, why string) error {
	return kernel.Refuse(unix.EINVAL, arg, why, "use a librdmacm and headers that belong together")
}
