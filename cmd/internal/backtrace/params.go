package backtrace

import "time"

// Limits of what a program's files may cost. Those of a hostile program are malformed on purpose.
const (
	// mostFrames bounds a stack.
	mostFrames = 32
	// mostInlined bounds the functions that were put into one of them.
	mostInlined = 64
	// mostImages bounds the files of a report. Open MPI with UCX has 90.
	mostImages = 512
	// mostSections and mostNames bound the sections of a file, and the bytes of their names.
	mostSections = 4096
	mostNames    = 1 << 20
	// mostUnwind bounds .eh_frame of all files of a report, and mostSymbols their symbol tables.
	// Those of libclang take 3 MiB and 20 MiB. In memory they take three times as much.
	mostUnwind  = 64 << 20
	mostSymbols = 256 << 20
	// mostName bounds the name of a symbol, and mostNamePower, a power of two, what it stands for.
	mostName      = 4096
	mostNamePower = 13
	// mostDebug bounds the debug information of a report, uncompressed.
	mostDebug = 512 << 20
	// mostRules bounds the unwind instructions of a function, in bytes. Those of large functions
	// take a few hundred.
	mostRules = 16 << 10
	// timeLimit is how long a report is given its lines.
	timeLimit = 20 * time.Second
)
