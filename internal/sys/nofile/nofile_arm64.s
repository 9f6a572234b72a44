#include "textflag.h"

// func getrlimit(resource uintptr, limit *[2]uint64) (errno uintptr)
TEXT ·getrlimit(SB),NOSPLIT,$0-24
	MOVD $0, R0 // this process
	MOVD resource+0(FP), R1
	MOVD $0, R2 // no new limit
	MOVD limit+8(FP), R3
	MOVD $261, R8 // SYS_prlimit64
	SVC
	MOVD R0, errno+16(FP)
	RET
