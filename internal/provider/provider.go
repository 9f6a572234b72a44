// Package provider describes what a provider of rdma-core adds to the kernel's user ABI.
// libibverbs has a provider for each kind of hardware. The provider and its kernel driver
// share private structs, which travel inside the requests of uverbs. They also share the
// queues of the data path. A Driver is the kernel's half of such a pair.
//
// uverbs asks a Driver for queues and leaves the private structs to it. The objects
// behind the queues are the engine's, and uverbs makes them, whatever the provider.
package provider

import (
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// Driver is one kind of device, as a provider knows it.
type Driver interface {
	// ID returns the driver's number (enum rdma_driver_id), which every request of the
	// ioctl form names.
	ID() uint32
	// ABI returns the version of its private structs: abi_version of uverbsN.
	ABI() uint32
	// Look returns how the device of that name looks in sysfs. index is N of uverbsN, which no
	// other device has.
	Look(device string, index int) Look
	// Open makes the driver's part of one open of the device.
	Open(Open) (Context, error)
	// Methods returns the methods of the ioctl form that only this driver has, or that it answers
	// in its own way: they replace the common ones. May be nil.
	Methods() Methods
}

// Look is what sysfs shows of a device beside what the engine knows.
type Look struct {
	Parent   Parent
	NodeDesc string
	// Files of the device's directory. Empty ones are left out, except FWVer.
	FWVer, HWRev, HCAType, BoardID string
	// ShowsNetdev: the file parent has the name of the network interface, as rdma_rxe's has.
	ShowsNetdev bool
}

// DeviceAttr is what a program is told of a device.
type DeviceAttr struct {
	rxe.DeviceAttr
	// The clock of completions: the bits that count, and how fast it is. 0: there is none.
	TimestampMask, ClockKHz uint64
	MaxDMSize               uint64 // of device memory, in bytes
	RawPacketCaps           uint32 // enum ib_raw_packet_caps
	// Of Steering: how many indirection tables and work queues there are, and how many places the
	// largest table has.
	MaxTables, MaxTable, MaxWQ uint32
	// How long a completion event may wait for more completions: their number, and microseconds.
	MaxCQCount, MaxCQPeriod uint16
}

// SameKeys is implemented by a Driver whose regions have an rkey without a right for peers, too: it
// is the lkey. The right may come later, with reregistration.
type SameKeys interface{ HasSameKeys() bool }

// DeviceMemory is implemented by what a driver's method DM_ALLOC makes. A program registers it as
// regions, by offsets in it.
type DeviceMemory interface {
	dispatch.Resource
	rxe.Memory
	Size() uint64
	// Hold is called for each region of it, and Release when the region has ended. Until then
	// Destroy is EBUSY.
	Hold()
	Release()
}

// Moderates is implemented by a Driver whose CQs are Moderated.
type Moderates interface{ ModeratesCQs() bool }

// Moderated is implemented by a CQ whose events may wait for more completions (ibv_modify_cq).
type Moderated interface {
	// Moderate has an event wait for count completions, and no longer than some microseconds.
	Moderate(count, micros uint16) error
}

// XRC is implemented by a Driver whose provider has XRC. Only then do programs find it. The Context
// is asked for SRQs and queue pairs of XRC. An XRC target has no queue, and its QPRequest no CQs;
// that of an initiator has no RecvCQ. rxe.SRQ.Num is the number that a program has to know.
type XRC interface{ HasXRC() bool }

// Steers is implemented by a Driver whose provider has flow rules, work queues and RSS. Its
// Contexts are Steering. Only then do programs find them, on devices that have a place on a
// segment.
type Steers interface{ HasSteering() bool }

// Steering is a Context with what flow rules and work queues need.
type Steering interface {
	// NewFlow reads the private request of a flow rule: what its counters object counts. Nil: the
	// request says nothing of that. read reads the program's memory.
	NewFlow(u UData, read func(addr uint64, b []byte) error) ([]ether.Point, error)
	NewWQ(u UData, req WQRequest) (WQ, error)
	// NewTable delivers the private response for an indirection table of 1<<log places.
	NewTable(u UData, log uint32) error
	// NewRSS reads how a queue pair spreads frames over a table of 1<<log places, and delivers the
	// private response.
	NewRSS(u UData, log uint32) (RSS, error)
}

// RSS is what a queue pair does with the frames of its flow rules.
type RSS struct {
	ether.RSS
	// SelfLoopback: it takes frames that its own open of the device sends, too.
	SelfLoopback bool
}

// WQRequest is a request for a work queue, which receives only.
type WQRequest struct {
	MaxWR, MaxSGE, Flags uint32
	CQ                   CQ
}

// WQ is the memory of a work queue.
type WQ interface {
	// Init fills in what the engine's queue pair behind it must be like.
	Init(*rxe.QPInitAttr)
	// Created tells of the engine's queue pair, and delivers the private response.
	Created(u UData, qp *rxe.QP) error
	// CheckModify reads the private request of a change.
	CheckModify(u UData) error
	// Reset forgets what is in the queue.
	Reset()
	// Receives is that of QP.
	Receives() (waiting, entries int)
	// Free gives the memory back. The engine's queue pair has ended.
	Free()
}

// Parent is the bus device of a NIC, by which programs and rdma-core look for a device and its
// provider.
type Parent struct {
	Dir    string // below /sys/devices: pci0000:00/0000:00:1f.7
	Bus    string // in /sys/bus: pci
	Driver string // of that bus
	// Attributes are files of the directory, such as vendor and modalias, without the newline at
	// their end.
	Attributes map[string]string
}

// Methods are methods of the ioctl form, by object and number.
type Methods map[dispatch.MethodKey]Method

// Method is a method of a driver. An object that it makes (dispatch.Call.Make) may have a type of
// the driver's own. Such an object ends with the open of the device, after all other objects except
// protection domains.
type Method struct {
	Name  string
	Attrs []dispatch.AttrSpec
	// Destroys says that the object of the first attribute is destroyed before Handle is called.
	Destroys bool
	Handle   func(Context, *dispatch.Call) error
}

// Open is what a driver gets to know about an open of the device.
type Open struct {
	Device *rxe.Subdevice
	Budget *quota.Budget // bears what the driver takes
	// Offsets says where in the context's file the program maps things. The driver takes ranges for
	// its queues, and others take ranges for what they show.
	Offsets *Offsets
	// Overrun is called when the program moved an index of a completion queue past
	// what is in it. A QP may be locked: it does not block.
	Overrun func()
	// AddFlow makes a flow rule that a method of the driver's own asks for. The rule ends with the
	// resource.
	AddFlow func(k *dispatch.Call, req FlowRequest) (dispatch.Resource, error)
}

// FlowRequest is a request for a flow rule.
type FlowRequest struct {
	QP    *dispatch.Object // gets the frames; nil: nobody does
	Rule  ether.Rule       // without its receiver
	Ended func()           // is called when the rule has ended
}

// UData is the provider's private part of one request and of its response (struct
// ib_udata). Errors are errnos.
type UData interface {
	// Request returns the private request.
	Request() []byte
	// Room returns how many bytes the program has room for in the private response.
	Room() int
	// Probe reports whether n bytes of a private response can be delivered, before the
	// driver does something that it cannot undo.
	Probe(n int) error
	// Respond delivers the private response, or as much of it as there is room for.
	Respond(b []byte) error
	// Write copies b to the program's memory at an address that the private request
	// named.
	Write(addr uint64, b []byte) error
	// Space returns the address space of the program, for queues and doorbell records that lie
	// in memory of its own. It outlasts the request, and may block for ever. Requests from one
	// address space get the same value.
	Space() (rxe.Memory, error)
}

// Ringer is implemented by a Context whose program rings by a store.
type Ringer interface {
	// Woken returns why a store does not wake the device, which then looks for stores; nil if it
	// does.
	Woken() error
}

// Lender is implemented by a UData whose program can be stopped at its stores.
type Lender interface {
	// LendFaults is kernel.Lender's.
	LendFaults(got func(fd int, err error))
	// Mappings returns /proc/PID/maps of the program; empty: it is not known.
	Mappings() string
}

// Ringing is implemented by an rxe.Observer that wants to know which thread rings. A driver whose
// doorbells are system calls does not ask.
type Ringing interface {
	// Rings sees that what a thread has posted to a queue pair is about to be taken, while the
	// thread stands at its doorbell. nil: it is not known which thread it is.
	Rings(q *rxe.QP, at *At)
	// Rang follows Rings, when that was taken. What comes without Rings, nobody has seen.
	Rang(q *rxe.QP)
	// Crossed sees that two threads stand at one doorbell at the same time, which is for one thread
	// at a time. They have posted to two of these queue pairs, or to one.
	Crossed(qps []*rxe.QP, at [2]*At)
}

// At is where a thread stands.
type At struct {
	PID, TID int
	PC, SP   uint64
	Bytes    []byte // of its stack, from SP on
}

// Context is the driver's part of one open of the device (struct ib_ucontext). Its
// methods may be called by several threads at once. Errors are errnos, or errors of
// the engine.
//
// A queue is made in two steps: New… checks the request, makes the memory that the
// program shares, and says what the engine's object must be like. uverbs makes that
// object and hands it to Created, which delivers the private response.
type Context interface {
	// FD returns the file behind the program's descriptor of the device. It stays the
	// context's. Up to OffsetsEnd, each part belongs to the code that took it from Open.Offsets.
	FD() int

	// Begin reads the private part of GET_CONTEXT, and delivers the private response
	// (alloc_ucontext). After an error the program may ask again.
	Begin(u UData) error
	// QueryDevice changes what the program is told of the device, and delivers the private
	// response. The plain form of QUERY_DEVICE has no private part.
	QueryDevice(u UData, attr *DeviceAttr) error
	// CreatedPD delivers the private response for a new protection domain.
	CreatedPD(u UData, pd *rxe.PD, handle uint32) error
	// CreatedAH delivers the private response for a new address handle.
	CreatedAH(u UData, ah *rxe.AH) error

	NewCQ(u UData, req CQRequest) (CQ, error)
	NewSRQ(u UData, req SRQRequest) (SRQ, error)
	NewQP(u UData, req QPRequest) (QP, error)

	// DoorbellOffset returns where in the file the program's description must stand, so
	// that a doorbell that is not trapped does no harm there.
	DoorbellOffset() int64
	// Mappings returns how many queues the program was told to map so far. atOnce reports
	// whether a thread that makes a queue maps it before its next call on the device. If so,
	// the program's descriptor need not be the file at other times.
	Mappings() (told uint64, atOnce bool)
	// Sweep gives back the memory that such doorbells have filled. It does not block.
	Sweep()

	// End says that Close will follow soon: queues that are freed from now on need not
	// give their memory back themselves.
	End()
	// Close gives everything back, with the memory of the whole file. If keep is set, the program
	// can still read what its queues hold.
	Close(keep bool)
}

// CQRequest is a request for a completion queue.
type CQRequest struct {
	Handle  uint32
	Entries uint32
	Flags   uint32 // enum ib_uverbs_ex_create_cq_flags
	// Notify gives the program a completion event; nil: it wants none. A driver whose program asks
	// for events in memory calls it, after NewCQ. It does not block.
	Notify func()
}

// CQ is the memory of a completion queue.
type CQ interface {
	// Ring returns where the engine puts completions. If that is in memory that may block, it is a
	// rxe.BlockingCQRing.
	Ring() rxe.CQRing
	// Entries returns how many completions fit, and Waiting how many the program has
	// not polled.
	Entries() int
	Waiting() int
	// Created tells of the engine's queue, and delivers the private response.
	Created(u UData, cq *rxe.CQ) error
	// CheckResize reports whether Resize can succeed, as far as the program can know.
	CheckResize(u UData, entries uint32) error
	// Resize replaces the memory and delivers the private response.
	Resize(u UData, entries uint32) error
	// Arming is called before the program is promised a completion event.
	Arming()
	// Free gives the memory back. The engine's queue has ended.
	Free()
}

// LateCQ is implemented by a CQ whose Waiting is as of an earlier time, and may be too many.
type LateCQ interface {
	// Behind returns a function that looks how many completions of now the program has not polled.
	// It may block as long as an access to the program's memory.
	Behind() (look func() int)
}

// SRQRequest is a request for a shared receive queue.
type SRQRequest struct {
	Handle uint32
	Type   uint64 // enum ib_uverbs_srq_type
	MaxWR  uint32
	MaxSGE uint32
	CQ     CQ // of XRC: where its receives complete; else nil
}

// SRQ is the memory of a shared receive queue.
type SRQ interface {
	// Ring returns where the engine takes receive requests from. If that is in memory that may
	// block, it is a rxe.FetchingRing.
	Ring() rxe.RecvRing
	// Attr returns the size that the queue has for the engine.
	Attr() rxe.SRQAttr
	// Entries returns how many requests fit, and Waiting how many are posted and unused.
	Entries() int
	Waiting() int
	// Created tells of the engine's queue, and delivers the private response.
	Created(u UData, srq *rxe.SRQ) error
	// Modify changes the size or the limit.
	Modify(u UData, attr rxe.SRQAttr, mask rxe.SRQAttrMask) error
	// Free gives the memory back. The engine's queue has ended.
	Free()
}

// QPRequest is a request for a queue pair.
type QPRequest struct {
	Type           uint64 // enum ib_uverbs_qp_type
	Flags          uint32 // enum ib_uverbs_qp_create_flags
	Cap            rxe.QPCap
	SendCQ, RecvCQ CQ
	SRQ            bool // receives are taken from an SRQ
	Keys           Keys
}

// QP is the memory of a queue pair: the send queue, and the receive queue if it does
// not have an SRQ.
type QP interface {
	// Init fills in what the engine must know of the queues, whose sizes may be larger
	// than the program asked for.
	Init(*rxe.QPInitAttr)
	// Answer returns the sizes that the program is told, of a queue pair that was made with those
	// that the engine has.
	Answer(asked, made rxe.QPCap) rxe.QPCap
	// Created tells of the engine's queue pair, and delivers the private response.
	Created(u UData, qp *rxe.QP) error
	// Doorbell hands to the engine what the program has put into the send queue.
	// EINVAL: the queue pair is not in a state that sends.
	Doorbell() error
	// Discard takes back what the program has put into the send queue and the engine has not
	// seen: its post failed. The program must be in the call.
	Discard()
	// Pending reports whether there is something that the engine has not seen. It is for
	// doorbells that are not trapped.
	Pending() bool
	// Take hands one batch to the engine, and no more than share bytes if it is more than one work
	// request. EINVAL: the queue pair is not in a state that sends, and the program has posted
	// something since Take said so. With credited set, Take leaves a message for a later call that
	// has no receive work request at its peer. It does so for a millisecond at most.
	Take(share int, credited bool) (Taken, error)
	// Receives returns how many requests the receive queue holds, and how many fit. Both
	// are 0 with an SRQ.
	Receives() (waiting, entries int)
	// Modify changes the engine's queue pair, and what the driver has of it: with RESET, the
	// queues are empty. It delivers the private response.
	Modify(u UData, attr *rxe.QPAttr, mask rxe.QPAttrMask) error
	// Ending hands to the engine what the program has posted before it ends the queue pair. If the
	// program has ended, it is not called.
	Ending()
	// Free gives the memory back. The engine's queue pair has ended.
	Free()
}

// Taken is what one call of QP.Take did.
type Taken struct {
	Requests int  // work requests that the engine has taken
	Worth    int  // of the batch, in the measure of Share
	More     bool // Take should be called again
	NoCredit bool // a message was left, and Take should be called again after a pause
	// Awaited reports whether the program seems to wait for the request: it is the only one under
	// way, and something has reached the program since the last one.
	Awaited bool
}

// Keys finds what work requests name and the engine does not look up itself. Its
// methods are called without a lock held.
type Keys interface {
	PD() *rxe.PD // the queue pair's; nil: an XRC target has none
	MWByRKey(rkey uint32) *rxe.MW
	MRByLKey(lkey uint32) *rxe.MR
}
