package replay

// The reasons for which a captured device and the engine may differ.
const (
	whyRereadPlace = "a READ that is requested again from its middle is a separate request, so its first response is FIRST or ONLY (IBA 9.4.4); Linux continues with MIDDLE and LAST, and requesters accept both"
	whyLostNAK     = "the NAK, or the request that it is about, was lost beyond the point of capture: the request was sent again"
	whyBehindRNR   = "after an RNR NAK, Linux sends one sequence NAK for the requests that were in flight after that one (rxe_resp.c, check_psn); the specification has them dropped (IBA 9.7.5.2.8), and requesters ignore the NAK"
	whyCaptureEnds = "the capture ends here, or lacks the packet"
	whyBusy        = "an RNR NAK for a request that takes no receive says that the device was busy (IBA 9.7.5.2.8); the engine was not"
	whyPresentMSN  = "Linux answers a duplicate with the current count of messages, the engine with that of the first answer; requesters ignore it"
	whyNoKey       = "the key of a request without data has no meaning (IBA C9-88)"
	whyNoMRA       = "an MRA may come at any time before the answer (IBA 12.6.6); the engine, as Linux now, sends one only if the message comes again"
	whyLostAnswer  = "the answer was lost beyond the point of capture: the message was sent again"
	whyOwnTID      = "a DREP has the transaction ID of its DREQ (IBA 12.6); Linux, whose own DREQ was answered first, gives it the one of its own (cm.c, cm_format_drep)"
	whyAnswerAgain = "the message that it answers came again beyond the point of capture"
	whyNoPaths     = "a RoCE port has no alternate paths: the engine, as Linux, sends neither LAP nor APR"
)
