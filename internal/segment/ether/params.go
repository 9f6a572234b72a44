package ether

const (
	// maxVLANs is how many tags Parse goes through. Adapters go through two.
	maxVLANs = 4

	// maxExtensions is how many extension headers of IPv6 Parse goes through. RFC 8200 has six
	// kinds, and one of them may occur twice.
	maxExtensions = 8

	// MaxRules bounds the rules of one Table. Each takes some 300 bytes.
	MaxRules = 4096

	// maxMasks bounds the different masks of one Table. Decide looks at each, in some 40 ns.
	maxMasks = 64

	// maxSame bounds the rules with one match, as each of them receives the frame.
	maxSame = 64

	// Priorities is how many priorities a rule can have, as with mlx5 (MLX5_IB_FLOW_LAST_PRIO).
	Priorities = 16
)
