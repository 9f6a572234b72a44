package verbsapi

import "sync"

// users counts the objects that were made with another one, which they keep.
type users struct {
	mu   sync.Mutex
	n    int
	gone bool
}

// join counts one more. It refuses if the object is destroyed.
func (u *users) join(op, object string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return closed(op, object)
	}
	u.n++
	return nil
}

func (u *users) leave() {
	u.mu.Lock()
	u.n--
	u.mu.Unlock()
}

func (u *users) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n > 0
}

// end destroys the object, unless it has users or destroy fails.
func (u *users) end(op, object string, destroy func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone:
		return closed(op, object)
	case u.n > 0:
		return &OpError{Op: op, Arg: object, Why: "something that was made with it exists", Err: ErrBusy}
	}
	err := destroy()
	u.gone = err == nil
	return err
}
