// Package bufmem is memory of this process as the engine reads and writes it (rxe.Memory): slices,
// and dma-bufs. A dma-buf is a buffer of a device's driver, which other drivers may share.
//
// The package knows no region and no program.
package bufmem
