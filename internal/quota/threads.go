package quota

// How many threads of the daemon wait for the programs of one user when those
// programs do not answer.
const (
	MaxWorkers = 4  // with work given to Background
	MaxInline  = 4  // threads that run the engine and bring events
	MaxWriters = 16 // threads that bring events, and nothing else
)

// Background runs work in one of the user's threads. It is for work that a program can block
// for ever, such as closing a pipe whose reader does not answer. A user has MaxWorkers such
// threads. If all of them are blocked, further work of the user waits. The cost that the work
// will give back stays taken until the work has run.
func (b *Budget) Background(work func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.work = append(b.work, work)
	b.giving++
	if b.workers < MaxWorkers {
		b.workers++
		go b.run()
	}
}

func (b *Budget) run() {
	for {
		b.mu.Lock()
		if len(b.work) == 0 {
			b.workers--
			b.work = nil
			b.mu.Unlock()
			return
		}
		work := b.work[0]
		b.work[0] = nil
		b.work = b.work[1:]
		b.mu.Unlock()
		work()
		b.gave()
	}
}

// Waiting returns how much of the work given to Background no thread has begun.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.work)
}

// Workers returns how many threads run such work.
func (b *Budget) Workers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.workers
}

// EnterInline reports whether a thread that runs the engine may make a system call
// on one of the user's pipes now. It never waits. LeaveInline follows the call, or
// the refusal.
func (b *Budget) EnterInline() bool { return b.inline.Add(1) <= MaxInline }

// LeaveInline ends what EnterInline began.
func (b *Budget) LeaveInline() { b.inline.Add(-1) }

// EnterWriter waits until the caller may make system calls on one of the user's
// pipes. It returns false if done is closed first.
func (b *Budget) EnterWriter(done <-chan struct{}) bool {
	select {
	case b.writers <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

// LeaveWriter ends what EnterWriter began.
func (b *Budget) LeaveWriter() { <-b.writers }
