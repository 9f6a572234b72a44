package mlx5

// The pages of registers (mlx5dv.h; mlx5.h: MLX5_BF_OFFSET). A register has two halves, which
// programs use in turn. UCX does so with any size.
const (
	logPageSize      = 12
	registersAt      = 0x800
	registerSize     = 0x200
	registersPerPage = 2
	armAt            = 0x20 // MLX5_CQ_DOORBELL
	indexesPerPage   = 4    // by which libmlx5 numbers registers: NUM_BFREGS_PER_UAR
)

// Doorbell records: two words, the most significant byte first. Of those of a queue pair and of a
// shared receive queue 16 bits count.
const (
	recordSize = 8

	qpRecordReceive = 0 // MLX5_RCV_DBR
	qpRecordSend    = 4 // MLX5_SND_DBR

	cqRecordConsumer = 0 // MLX5_CQ_SET_CI, of which 24 bits count
	cqRecordArm      = 4 // MLX5_CQ_ARM_DB
	consumerMask     = 1<<24 - 1
	armSolicited     = 1 << 24 // MLX5_CQ_DB_REQ_NOT_SOL
	armSequence      = 3 << 28
	// notArmed is in a record whose program has asked for no event. libmlx5 sets neither bit.
	notArmed = 3 << 30
)

// A request of a shared receive queue begins with the index of the next one: the queue is a list
// (struct mlx5_wqe_srq_next_seg).
const (
	nextIndex    = 2
	nextSize     = 16
	leastSRQSize = 32
)

// How much of a private request an old libmlx5 sends: up to these fields.
const (
	contextLeast = 8
	cqToCompEn   = 22
	resizeToSize = 10
	srqToFlags   = 20
	qpToRegister = 40
)

const (
	futexWait = 0 | 1<<7 // FUTEX_WAIT_PRIVATE
	futexWake = 1 | 1<<7 // FUTEX_WAKE_PRIVATE
)
