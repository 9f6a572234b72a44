package keeper

// The processes talk over daemon.Conn sockets: first the front and the keeper,

// report is what the keeper tells the front.
type report struct {
	Started   int    `json:"started,omitempty"` // the program's process
	Stopped   int    `json:"stopped,omitempty"` // by this signal
	Continued bool   `json:"continued,omitempty"`
	Say       string `json:"say,omitempty"`   // to the user
	Error     string `json:"error,omitempty"` // the program was not started
	Ended     bool   `json:"ended,omitempty"` // with:
	Status    uint32 `json:"status,omitempty"`
}

// notice is what the front tells the keeper: it was sent this signal.
type notice struct {
	Signal int `json:"signal"`
}

// then the keeper and the child.

// installed is what the child tells the keeper. The listener is with it unless
// there is an error.
type installed struct {
	Error string `json:"error,omitempty"`
	// Killable: see interpose.Installed.
	Killable bool `json:"killable"`
}

// proceed lets the child start the program.
type proceed struct{}
