package verbsapi

import "github.com/gorxe/gorxe/rxe"

// NodeType is enum ibv_node_type.
type NodeType = rxe.NodeType

// NodeCA is the type of every device here: a channel adapter.
const NodeCA = rxe.NodeCA

// TransportType is enum ibv_transport_type.
type TransportType int8

// TransportIB is the InfiniBand transport, which RoCEv2 carries.
const TransportIB TransportType = 0

// NodeTypeStr describes a node type, in libibverbs' words as all of these
// (ibv_node_type_str).
func NodeTypeStr(t NodeType) string { return t.String() }

// PortStateStr describes a port state (ibv_port_state_str).
func PortStateStr(s PortState) string { return s.String() }

// EventTypeStr describes an asynchronous event (ibv_event_type_str).
func EventTypeStr(t EventType) string { return t.String() }

// WCStatusStr describes a completion status (ibv_wc_status_str).
func WCStatusStr(s WCStatus) string { return s.String() }
