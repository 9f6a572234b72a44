package explain

import "github.com/gorxe/gorxe/wire"

// cmEventWords are the events of enum rdma_cm_event_type that say that something went wrong.
var cmEventWords = []Word{
	{Name: "RDMA_CM_EVENT_ADDR_ERROR", Meaning: "rdma_resolve_addr found no device or no route for the address. The status is a negative errno.", Fix: "Compare the address with gorxe status and ip route."},
	{Name: "RDMA_CM_EVENT_ROUTE_ERROR", Meaning: "rdma_resolve_route found no route. The status is a negative errno.", Fix: "See ip route."},
	{Name: "RDMA_CM_EVENT_CONNECT_ERROR", Meaning: "The connection could not be made, on this side. The status is a negative errno.", Fix: "Run the program with gorxe run --explain."},
	{Name: "RDMA_CM_EVENT_UNREACHABLE", Meaning: "The peer's host did not answer. The status is a negative errno, or of a UD id the peer's reason.", Fix: "See whether the server runs, and whether UDP port 4791 gets through."},
	{Name: "RDMA_CM_EVENT_REJECTED", Meaning: "The peer refused the connection. The status is the reject reason: 8 if nothing listens at the port, 28 if the server itself refused.", Fix: "Start the server first, and compare address, port and port space. gorxe explain NUMBER explains the reason."},
	{Name: "RDMA_CM_EVENT_DISCONNECTED", Meaning: "The connection has ended, on either side.", Fix: "If that is too early, see why the peer ended."},
	{Name: "RDMA_CM_EVENT_DEVICE_REMOVAL", Meaning: "The device is gone. The program must destroy its ids.", Fix: "See whether the daemon still runs."},
	{Name: "RDMA_CM_EVENT_MULTICAST_ERROR", Meaning: "rdma_join_multicast failed. The status is a negative errno.", Fix: "Check the address of the group."},
}

// rejectWords are the reasons of enum ib_cm_rej_reason that gorxe and Linux often give.
var rejectWords = []Word{
	{Name: "IB_CM_REJ_NO_RESOURCES", Number: int(wire.RejectNoResources), Meaning: "The peer has no room for the connection.", Fix: "Listen with a longer backlog, or connect again."},
	{Name: "IB_CM_REJ_TIMEOUT", Number: int(wire.RejectTimeout), Meaning: "The peer got no answer in time.", Fix: "See whether packets get through in both directions."},
	{Name: "IB_CM_REJ_INVALID_SERVICE_ID", Number: int(wire.RejectInvalidServiceID), Meaning: "Nothing listens at that port.", Fix: "Start the server first, and compare address, port and port space. Give -R at both ends of perftest, or at neither."},
	{Name: "IB_CM_REJ_STALE_CONN", Number: int(wire.RejectStale), Meaning: "The peer still has an older connection of the same queue pair.", Fix: "Connect again with a new queue pair."},
	{Name: "IB_CM_REJ_CONSUMER_DEFINED", Number: int(wire.RejectConsumer), Meaning: "The server refused the connection: by rdma_reject, because it ended, because it listens and does not answer, or because it listens for another address or for IPv4 only.", Fix: "See the server's output, and give the address at which it listens: localhost may be ::1, so give 127.0.0.1 instead. Its private data may have a reason."},
}
