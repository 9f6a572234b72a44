package pod

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// statusTimeout bounds the wait for one daemon's status, and asking how many are asked at once.
const (
	statusTimeout = 4 * time.Second // Prometheus waits ten by default
	asking        = 8
)

// Statuses asks the daemons of containers whose sockets are in dir what they have. Errors are those
// of daemons that do not say it.
func Statuses(dir string) (list []proto.PodStatus, errs []error) {
	paths, err := filepath.Glob(filepath.Join(dir, sockets))
	if err != nil {
		return nil, []error{err}
	}
	found, failed := make([]*proto.PodStatus, len(paths)), make([]error, len(paths))
	var running sync.WaitGroup
	turns := make(chan struct{}, asking)
	for i, path := range paths {
		turns <- struct{}{}
		running.Go(func() {
			found[i], failed[i] = statusOf(path)
			<-turns
		})
	}
	running.Wait()
	for i, path := range paths {
		switch err := failed[i]; {
		case err == nil:
			list = append(list, *found[i])
		case !errors.Is(err, proto.ErrNoDaemon) && !errors.Is(err, proto.ErrEnding):
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	return list, errs
}

func statusOf(path string) (*proto.PodStatus, error) {
	c, err := proto.Dial([]string{path})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Conn.Sock.SetDeadline(time.Now().Add(statusTimeout)); err != nil {
		return nil, err
	}
	return c.Containers()
}
