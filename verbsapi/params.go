package verbsapi

const (
	// mostQueues is how many places an indirection table has at most, as with mlx5. Twice: 16 KiB
	// more for each table.
	mostQueues = 1 << 11
	// mostCounts bounds the indexes of a counters object, as with mlx5. Twice: Read takes a list
	// twice as long.
	mostCounts = 1 << 15
)
