//go:build !amd64

package wire

import "hash/crc32"

// On other processors hash/crc32 is the fastest known.
const (
	haveWideCRC = false
	crcWideLen  = 256
)

func crcWide(reg uint32, b []byte) uint32 { return ^crc32.Update(^reg, crc32.IEEETable, b) }
