package keeper

import (
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/provider/mlx5"
	"github.com/gorxe/gorxe/internal/trap/fallback"
)

// What the filter and the fallback have to know of the provider of the program's devices.

// doorbellSize is how long a write is that is a doorbell.
const doorbellSize = librxe.DoorbellSize

// flushQueues completes what a dead daemon left in the queues of a device.
func flushQueues(q fallback.Queues, p fallback.Process) (again bool) {
	_, _ = librxe.FlushOrphan(q) // there is nobody to tell
	_, again = mlx5.FlushOrphan(q, p)
	return again
}
