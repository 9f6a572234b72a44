package verbsapi

import "github.com/gorxe/gorxe/rxe"

// Info is what the two ends of a connection tell each other, by some other way,
// before there is one.
type Info struct {
	QPN QPN
	PSN PSN // of the first packet that this end will send, 24 bits
	GID GID
}

// ConnectAttr holds the attributes of a connection that have sensible defaults. The
// zero value means all defaults.
type ConnectAttr struct {
	PathMTU     MTU    // the same at both ends; 0: the port's active MTU
	Access      Access // what the peer may do; 0: WRITE, READ, atomics and FLUSH
	SGIDIndex   uint8
	MaxRdAtomic uint8 // READs and atomics outstanding, each way; 0: 16
	MinRNRTimer uint8 // code; 0: 0.64 ms
	Timeout     uint8 // code; 0: 67 ms
}

// Defaults of ConnectAttr, and retry counts: seven retries, and no limit for a
// receiver that is not ready.
const (
	defaultConnAccess = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic |
		AccessFlushGlobal | AccessFlushPersist
	defaultRdAtomic = 16
	defaultRNRTimer = 12
	defaultTimeout  = 14
	retryCount      = 7
)

// Connect takes an RC or UC queue pair from RESET through INIT and RTR to RTS,
// towards remote. Local.PSN is the PSN that the peer was told. Messages can be sent
// once both ends are connected. Post receives between Init and Connect, before the
// peer sends.
func (q *QP) Connect(local, remote Info, attr ConnectAttr) error {
	if err := q.Init(attr); err != nil {
		return err
	}
	if attr.PathMTU == 0 {
		port, err := q.ctx.QueryPort(thePort)
		if err != nil {
			return err
		}
		attr.PathMTU = port.ActiveMTU
	}
	rtr := QPAttr{
		State:           QPRTR,
		PathMTU:         attr.PathMTU,
		DestQPN:         remote.QPN,
		RQPSN:           remote.PSN,
		MaxDestRdAtomic: orDefault(attr.MaxRdAtomic, defaultRdAtomic),
		MinRNRTimer:     orDefault(attr.MinRNRTimer, defaultRNRTimer),
		AH:              AHAttr{DGID: remote.GID, SGIDIndex: attr.SGIDIndex, PortNum: thePort},
	}
	rts := QPAttr{
		State:       QPRTS,
		SQPSN:       local.PSN,
		Timeout:     orDefault(attr.Timeout, defaultTimeout),
		RetryCnt:    retryCount,
		RNRRetry:    retryCount,
		MaxRdAtomic: orDefault(attr.MaxRdAtomic, defaultRdAtomic),
	}
	if err := q.step(QPInit, &rtr); err != nil {
		return err
	}
	return q.step(QPRTR, &rts)
}

// step takes the queue pair from one state to attr.State, with the attributes
// that this transition requires.
func (q *QP) step(from QPState, attr *QPAttr) error {
	return q.Modify(attr, rxe.RequiredMask(q.init.Type, from, attr.State))
}

// Init takes an RC or UC queue pair from RESET to INIT, where receives can be
// posted. In INIT it does nothing.
func (q *QP) Init(attr ConnectAttr) error {
	if q.State() == QPInit {
		return nil
	}
	init := QPAttr{State: QPInit, PortNum: thePort, Access: attr.Access}
	if init.Access == 0 {
		init.Access = defaultConnAccess
	}
	return q.step(QPReset, &init)
}

// InitUD takes a UD queue pair from RESET to RTS. A Q_Key with the top bit set needs no privilege
// here: the device is this program's own. Under gorxe run it needs CAP_NET_RAW.
func (q *QP) InitUD(qkey uint32, psn PSN) error {
	init := QPAttr{State: QPInit, PortNum: thePort, QKey: qkey}
	if err := q.step(QPReset, &init); err != nil {
		return err
	}
	if err := q.step(QPInit, &QPAttr{State: QPRTR}); err != nil {
		return err
	}
	return q.step(QPRTR, &QPAttr{State: QPRTS, SQPSN: psn})
}

// Info returns what the peer of this queue pair must be told. ErrInvalid: the GID table has no GID
// at that index (Context.QueryGIDTable).
func (q *QP) Info(psn PSN, sgidIndex int) (Info, error) {
	gid, err := q.ctx.QueryGID(thePort, sgidIndex)
	if err == nil && gid.IsZero() {
		err = invalid("Info", "sgidIndex", "has no GID")
	}
	if err != nil {
		return Info{}, err
	}
	return Info{QPN: q.Num(), PSN: psn, GID: gid}, nil
}

func orDefault(v, def uint8) uint8 {
	if v == 0 {
		return def
	}
	return v
}
