package threads

// All numbers of this package. They are chosen, not measured.
const (
	// maxResting bounds the threads of a pool that have nothing to do. All others end. Twice: 32
	// KiB more of stacks. Half: four sessions that come and go start threads.
	maxResting = 4
	// eventsPerWait is how many events one epoll_wait takes. Half: two calls where 64 files are
	// ready at once.
	eventsPerWait = 64
)
