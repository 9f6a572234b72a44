package wire

import "fmt"

// CMReason says why a REJ refuses (IBA 12.6.7.2).
type CMReason uint16

// The reasons that gorxe and Linux give.
const (
	RejectNoQP             CMReason = 1
	RejectNoResources      CMReason = 3
	RejectTimeout          CMReason = 4
	RejectUnsupported      CMReason = 5
	RejectInvalidCommID    CMReason = 6
	RejectInvalidServiceID CMReason = 8
	RejectTransportType    CMReason = 9
	RejectStale            CMReason = 10
	RejectPrimaryGID       CMReason = 12
	RejectPathMTU          CMReason = 26
	RejectConsumer         CMReason = 28
	RejectDuplicateCommID  CMReason = 30
	RejectVendorOption     CMReason = 35
)

var cmReasons = [...]string{
	1: "no queue pair available", 2: "no end-to-end context available", 3: "no resources available", 4: "timeout",
	5: "unsupported request", 6: "invalid communication ID", 7: "invalid communication instance", 8: "invalid service ID",
	9: "invalid transport service type", 10: "stale connection", 11: "RDC does not exist",
	12: "primary remote port GID rejected", 13: "primary remote port LID rejected", 14: "invalid primary SL",
	15: "invalid primary traffic class", 16: "invalid primary hop limit", 17: "invalid primary packet rate",
	18: "alternate remote port GID rejected", 19: "alternate remote port LID rejected", 20: "invalid alternate SL",
	21: "invalid alternate traffic class", 22: "invalid alternate hop limit", 23: "invalid alternate packet rate",
	24: "port and connection manager redirection", 25: "port redirection", 26: "invalid path MTU",
	27: "insufficient responder resources", 28: "consumer reject", 29: "RNR retry count rejected",
	30: "duplicate local communication ID", 31: "invalid class version", 32: "invalid primary flow label",
	33: "invalid alternate flow label", 35: "vendor option not supported",
}

func (r CMReason) String() string {
	return nameOf(cmReasons[:], int(r), "reject reason")
}

// SIDRStatus is the result of a service ID resolution (IBA 12.11.2.2).
type SIDRStatus uint8

// The results.
const (
	SIDRSuccess     SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1
	SIDRReject      SIDRStatus = 2
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRVersion     SIDRStatus = 5
)

var sidrStatuses = [...]string{
	"success", "service ID not supported", "rejected by the service provider", "no queue pair available", "redirected",
	"version not supported",
}

func (s SIDRStatus) String() string { return nameOf(sidrStatuses[:], int(s), "SIDR status") }

// APRStatus is the result of loading an alternate path (IBA 12.8.2.2).
type APRStatus uint8

// The results that gorxe and Linux give.
const (
	APRSuccess       APRStatus = 0
	APRInvalidCommID APRStatus = 1
	APRUnsupported   APRStatus = 2
	APRReject        APRStatus = 3
)

var aprStatuses = [...]string{
	"alternate path loaded", "invalid communication ID", "alternate paths not supported", "rejected", "redirected",
	"proposed path is the current one", "invalid QP or end-to-end context number", "alternate remote port LID rejected",
	"alternate remote port GID rejected", "invalid flow label", "invalid traffic class", "invalid hop limit",
	"invalid packet rate", "invalid SL",
}

func (s APRStatus) String() string { return nameOf(aprStatuses[:], int(s), "APR status") }

// nameOf returns the name of a code, or the code if it has none.
func nameOf(names []string, code int, what string) string {
	if code < len(names) && names[code] != "" {
		return names[code]
	}
	return fmt.Sprintf("%s %d", what, code)
}
