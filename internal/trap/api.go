package trap

import (
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/internal/trap/threads"
)

// Host is the machine that programs seem to run on. Its methods are called from
// several goroutines.
type Host interface {
	// Tree is the file tree as it is now.
	Tree() *tree.Tree
	// Open opens the character device that n is; an error that is a unix.Errno
	// is what open(2) answers, others become EIO.
	Open(n *tree.Node, who Credentials) (File, error)
}

// Mourner is a Host that learns how the processes of a program ended. Its method is called under a
// lock, and waits for nobody.
type Mourner interface {
	// ProcessEnded is called once for each process that made a trapped call, before its files close
	// or soon after. status is nil if the kernel does not say how it ended.
	ProcessEnded(pid int, status *unix.WaitStatus)
}

// Netlink answers what programs send on sockets of protocol NETLINK_RDMA. Its methods may be
// called by several threads, and waits for nobody.
type Netlink interface {
	Netlink(who Credentials, req *kernel.NetlinkRequest, reply kernel.NetlinkReply)
	// NetAdmin reports whether the caller has CAP_NET_ADMIN over the devices' network namespace.
	NetAdmin(who Credentials) bool
}

// File is an open device. Its descriptor has a name that begins with gorxe.
type File = kernel.File

// Credentials say which process opens a device or asks about one: its number as this process sees
// it, and the rights of the calling thread at that moment.
type Credentials struct {
	PID int
	procfs.Rights
}

// Keeper is a process that has rights over the program which this one may lack,
// being its ancestor or of the same user. Its methods may be called from several
// goroutines. The keeper's side is KeepMem. See also StatKeeper.
type Keeper interface {
	// OpenMem opens /proc/PID/mem of the process that pidfd stands for.
	OpenMem(pidfd int) (memfd int, err error)
}

// ServeConfig is what a session needs.
type ServeConfig struct {
	Host Host
	// Netlink is nil if there is no NETLINK_RDMA. Its sockets are refused then, as by a kernel
	// without RDMA.
	Netlink Netlink
	// Keeper is asked where the kernel refuses; nil if there is none.
	Keeper Keeper
	// FDs is the range that the program's filter was made with.
	FDs filter.Range
	// DoorbellSize is how long a write is that is a doorbell, as the filter was told.
	DoorbellSize uint32
	// Calls is the page in which the keeper finds the calls that were in hand; nil: one of the
	// session's own. The session unmaps it, unless NewSession fails.
	Calls *inflight.Page
	// Budget bears what processes and open files cost; nil: one without limits.
	Budget *quota.Budget
	// User is common to the sessions of one user; nil: the session's own.
	User *User
	// Closes is common to the sessions of this process; nil: the session's own.
	Closes *Closes
	// Polling learns on which processors programs poll; it may be nil.
	Polling *sched.Polling
	// Class is for threads that take doorbells, while others of it receive packets; nil: none is
	// in it.
	Class *sched.Class
	// Contents are common to the sessions of this process; nil: the session's own. They are the
	// files of Host's tree that programs have open.
	Contents *sealed.Contents
	// Threads are common to the sessions of this process; nil: the session's own.
	Threads *threads.Shared
	// Doorbells says which doorbells are trapped.
	Doorbells doorbell.Mode
	// Paced has doorbells that need not be trapped be trapped as long as the program posts slowly,
	// and some of them if it posts fast.
	Paced bool
	// Say tells the program's user something; nil if it cannot. It waits for nobody.
	Say func(text string)
	Log *slog.Logger // nil: slog.Default
}
