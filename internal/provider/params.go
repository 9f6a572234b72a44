package provider

// All numbers of this package.
const (
	// PageSize is the unit of mmap, in bytes.
	PageSize = 4096
	// OffsetsEnd is the end of all ranges. What is behind it in the file is the driver's. Twice or
	// half: no program maps so much.
	OffsetsEnd = 1 << 46
	// offsetsFirst is where the ranges of Take begin: below lies what ABIs prescribe, and what the
	// filter refuses to map (filter.ContiguousTo). Half: queues there cannot be mapped.
	offsetsFirst = 2 << 20

	// Share is how much Take hands over before doorbells of other queue pairs are looked at: bytes
	// of messages, of which each counts as at least ShareEach. That takes microseconds, and some
	// milliseconds in an emulated machine: less than standby allows a call. Twice: other queue
	// pairs wait twice as long. Half: more calls for each message.
	Share     = 256 << 10
	ShareEach = 1 << 10
)
