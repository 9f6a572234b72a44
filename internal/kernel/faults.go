package kernel

import "sync"

// Faults says what goes wrong with the verbs of a program, on purpose.
type Faults interface {
	// Verb is called before a verb is executed. It may wait, and returns EIO if ended is closed
	// meanwhile. The verb then fails with the errno that Verb returns, if it returns one.
	Verb(name string, ended <-chan struct{}) error
}

// FaultPoint is where the verbs of one open file meet faults. The zero value has none.
type FaultPoint struct {
	faults Faults
	ended  chan struct{}
	once   sync.Once
}

// Init must be called before the first Pass. faults may be nil.
func (p *FaultPoint) Init(faults Faults) { p.faults, p.ended = faults, make(chan struct{}) }

// Pass is called before a verb is executed.
func (p *FaultPoint) Pass(verb string) error {
	if p.faults == nil {
		return nil
	}
	return p.faults.Verb(verb, p.ended)
}

// End lets no verb wait any longer.
func (p *FaultPoint) End() {
	if p.faults != nil {
		p.once.Do(func() { close(p.ended) })
	}
}
