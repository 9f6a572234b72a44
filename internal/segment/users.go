package segment

import "sync"

// Users have a segment each: what one sends reaches no other. A segment exists as long as one of
// its stations is used, unless it is kept. The zero value has no users.
type Users struct {
	mu  sync.Mutex // segments' locks are taken under it
	tap Tap        // gets the frames of all; nil: nobody does
	of  map[any]*userSegment
}

type userSegment struct {
	Segment
	byDevice map[any]*Station
	kept     bool // it stays when no station is used
}

// Keep returns the segment of a user, which stays from now on.
func (u *Users) Keep(user any) *Segment {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.segment(user)
	g.kept = true
	return &g.Segment
}

// segment returns the segment of a user. The caller holds mu.
func (u *Users) segment(user any) *userSegment {
	g := u.of[user]
	if g == nil {
		g = &userSegment{byDevice: map[any]*Station{}}
		g.Capture(u.tap)
		if u.of == nil {
			u.of = map[any]*userSegment{}
		}
		u.of[user] = g
	}
	return g
}

// Capture gives the frames of all users to a tap; nil: to none.
func (u *Users) Capture(t Tap) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tap = t
	for _, g := range u.of {
		g.Capture(t)
	}
}

// Station returns the station of a device on the segment of a user, for the caller to Release. It
// calls describe for one that does not exist, and returns its error. Both keys are compared.
func (u *Users) Station(user, device any, describe func() (Config, error)) (*Station, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.of[user]
	if g != nil && g.byDevice[device] != nil {
		st := g.byDevice[device]
		st.users++
		return st, nil
	}
	cfg, err := describe()
	if err != nil {
		return nil, err
	}
	g = u.segment(user)
	st := g.Join(cfg)
	st.users, st.release = 1, func() { u.release(user, device, st) }
	g.byDevice[device] = st
	return st, nil
}

func (u *Users) release(user, device any, st *Station) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if st.users--; st.users > 0 {
		return
	}
	st.Leave()
	g := u.of[user]
	delete(g.byDevice, device)
	if len(g.byDevice) == 0 && !g.kept {
		delete(u.of, user)
	}
}

// Release gives back what Users.Station returned.
func (s *Station) Release() { s.release() }
