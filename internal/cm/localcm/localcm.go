// Package localcm has the RDMA CM of the devices that this process runs itself, as a Go
// program does with package verbsapi.
package localcm

import (
	"sync"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
)

// shared is the Manager of the process. It runs while it has users: open devices, and IDs,
// which may outlive a device and hear of the next one.
var shared struct {
	mu      sync.Mutex
	users   int
	manager *rdmacm.Manager
}

// Acquire returns the process's Manager. Each user calls Release once. An error means
// that the host's routes cannot be read.
func Acquire() (*rdmacm.Manager, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		m, err := rdmacm.Open(nil)
		if err != nil {
			return nil, err
		}
		shared.manager = m
	}
	shared.users++
	return shared.manager, nil
}

// Release ends one use of the Manager. With the last one its goroutines end.
func Release() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users--; shared.users > 0 {
		return
	}
	shared.manager.Close()
	shared.manager = nil
}
