package rxe

// Responses wait in PSN order. Only READ responses can make others wait: they
// are sent in portions, with pauses that grow when the peer asks for the same
// data again, so that a peer whose buffers are small is not overrun. A request
// that changes memory lets all earlier READs finish first.
