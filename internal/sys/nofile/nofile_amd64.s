#include "textflag.h"

// func getrlimit(resource uintptr, limit *[2]uint64) (errno uintptr)
TEXT ·getrlimit(SB),NOSPLIT,$0-24
	MOVQ resource+0(FP), DI
	MOVQ limit+8(FP), SI
	MOVQ $97, AX // SYS_getrlimit
	SYSCALL
	MOVQ AX, errno+16(FP)
	RET
