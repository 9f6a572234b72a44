package librxe

// sendState is what the engine did with the work requests of a send queue last. In each state, a
// doorbell hands it the next ones. In each but full, they also wait for take.
//
// The rows are states, and the columns are events. The test of the table reads it here.
//
//	          | took     | wantsCredit | noRoom   | refusal  | completion | resume | reset
//	open      | open     | noCredit    | full     | refused  | open       | open   | open
//	noCredit  | open     | noCredit    | full     | refused  | noCredit   | noCredit | open
//	full      | open     | noCredit    | full     | refused  | resuming   | full   | open
//	resuming  | resuming | resuming    | resuming | resuming | resuming   | open   | resuming
//	refused   | open     | noCredit    | full     | refused  | refused    | refused | open
type sendState uint8

const (
	// sendOpen: the engine takes what it is given.
	sendOpen sendState = iota
	// sendNoCredit: the first message would find no receive work request at its peer. It waits for
	// one in the queue, for creditWait at most.
	sendNoCredit
	// sendFull: the engine's queue is full. The next completion makes room.
	sendFull
	// sendResuming: a completion has made room, and a thread is about to call resume. There is only
	// one such thread at a time, so this state ends with that call alone.
	sendResuming
	// sendRefused: the engine takes nothing, because the QP is not in a state that sends.
	sendRefused
)

// sendEvent is what happens to a send queue.
type sendEvent uint8

const (
	sendTook        sendEvent = iota // the engine took work requests
	sendWantsCredit                  // it left the first one, which wants a credit
	sendNoRoom                       // it took some of them, or none, and is full
	sendRefusal                      // it refused them
	sendCompletion                   // work requests have completed
	sendResume                       // resume was called
	sendReset                        // the QP went to RESET
)

var sendTable = [...][7]sendState{
	sendOpen:     {sendOpen, sendNoCredit, sendFull, sendRefused, sendOpen, sendOpen, sendOpen},
	sendNoCredit: {sendOpen, sendNoCredit, sendFull, sendRefused, sendNoCredit, sendNoCredit, sendOpen},
	sendFull:     {sendOpen, sendNoCredit, sendFull, sendRefused, sendResuming, sendFull, sendOpen},
	sendResuming: {sendResuming, sendResuming, sendResuming, sendResuming, sendResuming, sendOpen, sendResuming},
	sendRefused:  {sendOpen, sendNoCredit, sendFull, sendRefused, sendRefused, sendRefused, sendOpen},
}

// on brings the queue into its next state; piece.mu is held. It reports whether that is another
// one.
func (r *sendRing) on(e sendEvent) (changed bool) {
	before := r.state
	r.state = sendTable[before][e]
	return r.state != before
}
