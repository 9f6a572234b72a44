package keeper

// The processes talk over daemon.Conn sockets: first the front and the keeper,

// report is a message from the keeper to the front.
type report struct {
	Started int    `json:"started,omitempty"` // the program's process
	Stopped int    `json:"stopped,omitempty"` // by this signal;
	Stop    int    `json:"stop,omitempty"`    // the number of this stop
	Heard   int    `json:"heard,omitempty"`   // number of a notice that it has handled
	Settle  bool   `json:"settle,omitempty"`  // the front must call inbox.settle before the next
	Say     string `json:"say,omitempty"`     // to the user
	Error   string `json:"error,omitempty"`   // the program was not started
	Ended   bool   `json:"ended,omitempty"`   // with:
	Status  uint32 `json:"status,omitempty"`
	// that the daemon recorded; 0 as well if processes are left
	Errors uint64 `json:"errors,omitempty"`
}

// notice tells the keeper which signals the front got.
type notice struct {
	Number  int       `json:"number"`
	Heard   int       `json:"heard"` // report.Heard: see canary
	Signals []arrival `json:"signals,omitempty"`
	Resumed int       `json:"resumed,omitempty"` // it is back from this stop (report.Stop)
}

// then the keeper and the child.

// installed is the message from the child to the keeper. It carries the listener unless
// there is an error.
type installed struct {
	Error string `json:"error,omitempty"`
	// Killable: see filter.Installed.
	Killable bool `json:"killable"`
}

// proceed lets the child start the program.
type proceed struct{}
