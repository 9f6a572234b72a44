package trap

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// credentials returns the rights that the calling thread has now. A program may change them at any
// time, and each thread has its own. So every use reads them again.
func (c *caller) credentials() (Credentials, error) {
	owner, err := c.owner()
	if err != nil {
		return Credentials{}, err
	}
	st, err := procfs.ReadStatus(c.r.thread())
	if err != nil {
		return Credentials{}, err
	}
	// the number is another thread's by now
	if st.TGID != owner.tgid || !c.r.s.listener.Valid(c.r.n.ID) {
		return Credentials{}, unix.ESRCH
	}
	if !procmem.ByNumber(st.UID, st.Permitted) {
		owner.space.MemOnly()
	}
	return Credentials{PID: owner.tgid, Rights: st.Rights}, nil
}

// opens reports whether the thread may open a node in a way: bits of access(2).
func (c *Credentials) opens(n *tree.Node, way uint32) bool {
	return n.Permits(c.FSUID, overrides(c.FSUID, c.Effective), way)
}

// accesses is opens for access(2), which goes by the real user (fs/open.c: access_override_creds).
func (c *Credentials) accesses(n *tree.Node, way uint32) bool {
	return n.Permits(c.RealUID, overrides(c.RealUID, c.Permitted), way)
}

// forAll reports whether everybody may use a node in a way, so that nobody's rights need be read.
// inode(7): the owner's bits
func forAll(n *tree.Node, way uint32) bool { return n.Mode&(n.Mode>>6)&accessBits&way == way }

// overrides reports whether a user with these capabilities has the rights of root on files of
// others.
func overrides(uid uint32, capabilities uint64) bool {
	return uid == 0 && capabilities&(1<<unix.CAP_DAC_OVERRIDE) != 0
}
