package mlx5

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/uapi"
)

// Driver is what the kernel's mlx5_ib is to libmlx5.
type Driver struct{ Profile Profile }

var _ provider.Driver = Driver{}

// ID implements provider.Driver.
func (Driver) ID() uint32 { return uapi.DriverMLX5 }

// ABI implements provider.Driver (MLX5_IB_UVERBS_ABI_VERSION).
func (Driver) ABI() uint32 { return 1 }

// Methods implements provider.Driver.
func (Driver) Methods() provider.Methods { return nil }

// Open implements provider.Driver. The queues are missing: programs see the device, and cannot open
// it.
func (Driver) Open(provider.Open) (provider.Context, error) { return nil, unix.EOPNOTSUPP }
