package rdmacm

// Signatures that follow (helpers: read this until the methods are here; this file goes away):
//
// func New(cfg Config) *Manager          Config{Resolver Resolver, Log *slog.Logger, Now func() rxe.Time}
// func (m *Manager) AddDevice(d *Device) error     Device{Index int; Name string; GUID uint64; Mux GSI /* *gsi.Mux */; Net func() rocev2.PortInfo}
// func (m *Manager) RemoveDevice(d *Device)   events DEVICE_REMOVAL; returns when the machine is closed
// func (m *Manager) PortChanged(d *Device)  // the daemon calls it on rocev2 OnPort
// func (m *Manager) Close()
// func (m *Manager) Status() []IDStatus
// func (m *Manager) NewID(o *Owner, ps wire.PortSpace, qpType rxe.QPType, handler func(*Event) bool) (*ID, error)
// type Owner struct { Privileged func() bool; UID, PID int; Command string; Budget *quota.Budget }
// ID methods (all errors unix.Errno; handlers are NEVER called from within the caller's own call: always from a goroutine of the Manager,
//   with the Manager's mutex held. So ucma may hold its own lock while it calls ID methods only if the handler does not take that lock...
//   i.e. lock order: Manager.mu -> the lock of ucma's event queue. Do not call ID methods with the queue's lock held.)
// func (id *ID) SetHandler(func(*Event) bool)
// func (id *ID) Bind(a Addr) error
// func (id *ID) ResolveAddr(src, dst Addr, timeout time.Duration) error      // src zero Addr: none
// func (id *ID) ResolveRoute(timeout time.Duration) error
// func (id *ID) Listen() error          // backlog is ucma's
// func (id *ID) Connect(*ConnParams) error
// func (id *ID) Accept(*ConnParams) error
// func (id *ID) EstablishActive() error
// func (id *ID) Reject(reason uint8, data []byte) error
// func (id *ID) Disconnect() error
// func (id *ID) Notify(event rxe.EventType) error
// func (id *ID) QPAttr(state rxe.QPState) (rxe.QPAttr, rxe.QPAttrMask, error)
// func (id *ID) SetTOS(uint8) error; SetReuseAddr(bool) error; SetAFOnly(bool) error; SetAckTimeout(uint8) error; SetPath([]PathRecord) error
// func (id *ID) Join(addr Addr, sendOnly bool) (*Multicast, error)   // events of it arrive at the ID's handler with Event.Multicast set
// func (mc *Multicast) Leave()
// func (id *ID) Destroy()               // no event of id after it returns
// func (id *ID) Device() *Device        // nil: not bound to one
// func (id *ID) LocalAddr() Addr; RemoteAddr() Addr; SGID() wire.GID; DGID() wire.GID; Paths() []PathRecord; State() State; PortSpace() wire.PortSpace; QPType() rxe.QPType
// type PathRecord struct { DGID, SGID wire.GID; FlowLabel uint32; HopLimit, TrafficClass uint8; Reversible bool; PKey wire.PKey; SL, MTU /*enum*/, Rate, PacketLifeTime uint8; ServiceID uint64 }
