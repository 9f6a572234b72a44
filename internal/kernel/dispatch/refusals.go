package dispatch

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// malformed refuses a request that the kernel's ABI does not allow. Only a library that was built
// with other headers makes one.
func malformed(arg, why string) error {
	return kernel.Refuse(unix.EINVAL, arg, why, "use headers and libraries that belong together")
}

// nameOf names an attribute by its number: the ABI has no other name for it.
func nameOf(id uint16) string { return fmt.Sprintf("attribute %#x", id) }
