package interpose

// A call is one system call of the filter's table.
type call struct {
	nr     uint32
	rule   rule
	answer handler // nil for what the filter answers itself
}

// A handler answers the call that a receiver has in hand.
type handler func(r *receiver) verdict

// maxNr bounds the numbers of trapped calls.
const maxNr = 512

// handlers are the handlers by number. Built once, read-only afterwards.
var handlers = func() (table [maxNr]handler) {
	for _, c := range trapped {
		table[c.nr] = c.answer
	}
	return table
}()
