// Package threads has the threads that all sessions of a process share: one that waits for
// files, and a pool of threads that do what may block. A session that has nothing to do has no
// thread.
//
// The package knows no session, and not what a file is.
package threads

// Shared is what the sessions of a process share. The zero value is ready.
type Shared struct {
	Poller Poller
	Pool   Pool
}

// Join announces a session. Leave undoes it.
func (s *Shared) Join() error {
	if err := s.Poller.join(); err != nil {
		return err
	}
	s.Pool.join()
	return nil
}

// Leave is called by a session that has removed its sources. When the last session has left, the
// threads end.
func (s *Shared) Leave() {
	s.Poller.leave()
	s.Pool.leave()
}
