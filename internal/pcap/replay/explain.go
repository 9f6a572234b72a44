package replay

// Why a captured device and the engine may differ.
const (
	whyRereadPlace = "a READ that is asked for again from its middle is a request of its own, so that its first response is FIRST or ONLY (IBA 9.4.4); Linux goes on with MIDDLE and LAST, and requesters take both"
	whyLostNAK     = "the NAK, or the request that it is about, was lost behind the point of capture: the request was sent again"
	whyBehindRNR   = "Linux sends one sequence NAK for what was in flight behind a request that it answered with an RNR NAK (rxe_resp.c, check_psn); the specification has it dropped (IBA 9.7.5.2.8), and requesters ignore it"
	whyCaptureEnds = "the capture ends, or lacks the packet"
	whyBusy        = "an RNR NAK for a request that takes no receive says that the device was busy (IBA 9.7.5.2.8); the engine was not"
	whyPresentMSN  = "Linux answers a duplicate with the present count of messages, the engine with that of the first answer; requesters ignore it"
	whyNoKey       = "the key of a request without data means nothing (IBA C9-88)"
)
