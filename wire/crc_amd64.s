#include "textflag.h"

// The CRC-32 of long input, by carry-less multiplication of 512 bits at a time:
// V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel 2009, whose constants these are for the distances there.
// hash/crc32 does the same with 128 bits at a time.

// Constants of folding over a distance of d bits: the reflections of
// x^(d+32) mod P and x^(d-32) mod P, for the low and the high quadword.

#define FOLD(name, lo, hi) \
	DATA name<>+0(SB)/8, $lo  \
	DATA name<>+8(SB)/8, $hi  \
	GLOBL name<>(SB), RODATA|NOPTR, $16

FOLD(fold2048, 0x11542778a, 0x1322d1430)
FOLD(fold1536, 0x1821d8bc0, 0x12e958ac4)
FOLD(fold1024, 0x1e88ef372, 0x14a7fe880)
FOLD(fold512, 0x154442bd4, 0x1c6e41596)
FOLD(fold128, 0x1751997d0, 0x0ccaa009e)

// lanes folds the four lanes of a register into the last, which it leaves out.
DATA lanes<>+0(SB)/8, $0x3db1ecdc
DATA lanes<>+8(SB)/8, $0x174359406
DATA lanes<>+16(SB)/8, $0xf1da05aa
DATA lanes<>+24(SB)/8, $0x15a546366
DATA lanes<>+32(SB)/8, $0x1751997d0
DATA lanes<>+40(SB)/8, $0x0ccaa009e
DATA lanes<>+48(SB)/8, $0
DATA lanes<>+56(SB)/8, $0
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// reduce has x^64 mod P; barrett has P and the quotient x^64 / P.
DATA reduce<>+0(SB)/8, $0x163cd6124
GLOBL reduce<>(SB), RODATA|NOPTR, $8
FOLD(barrett, 0x1db710641, 0x1f7011641)

// shift is for VPSHUFB: from byte r on, it moves a register left by 16-r bytes,
// from byte 16+r on, right by r.
DATA shift<>+0(SB)/8, $0x8080808080808080
DATA shift<>+8(SB)/8, $0x8080808080808080
DATA shift<>+16(SB)/8, $0x0706050403020100
DATA shift<>+24(SB)/8, $0x0f0e0d0c0b0a0908
DATA shift<>+32(SB)/8, $0x8080808080808080
DATA shift<>+40(SB)/8, $0x8080808080808080
GLOBL shift<>(SB), RODATA|NOPTR, $48

// func crcAVX512(reg uint32, p *byte, n int) uint32
TEXT ·crcAVX512(SB), NOSPLIT, $0-28
	MOVL reg+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX

	// Four registers of 64 bytes. The CRC register adds to the first bytes.
	VMOVD           AX, X0
	VPXORQ          (SI), Z0, Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VBROADCASTI32X4 fold2048<>(SB), Z10
	ADDQ            $256, SI
	SUBQ            $256, CX
	CMPQ            CX, $256
	JB              join

loop256:
	VPCLMULQDQ $0x00, Z10, Z0, Z4
	VPCLMULQDQ $0x11, Z10, Z0, Z0
	VPCLMULQDQ $0x00, Z10, Z1, Z5
	VPCLMULQDQ $0x11, Z10, Z1, Z1
	VPCLMULQDQ $0x00, Z10, Z2, Z6
	VPCLMULQDQ $0x11, Z10, Z2, Z2
	VPCLMULQDQ $0x00, Z10, Z3, Z7
	VPCLMULQDQ $0x11, Z10, Z3, Z3
	VPTERNLOGD $0x96, (SI), Z4, Z0
	VPTERNLOGD $0x96, 64(SI), Z5, Z1
	VPTERNLOGD $0x96, 128(SI), Z6, Z2
	VPTERNLOGD $0x96, 192(SI), Z7, Z3
	ADDQ       $256, SI
	SUBQ       $256, CX
	CMPQ       CX, $256
	JAE        loop256

join:
	// The four into one.
	VBROADCASTI32X4 fold1536<>(SB), Z10
	VBROADCASTI32X4 fold1024<>(SB), Z11
	VBROADCASTI32X4 fold512<>(SB), Z12
	VPCLMULQDQ      $0x00, Z10, Z0, Z4
	VPCLMULQDQ      $0x11, Z10, Z0, Z0
	VPCLMULQDQ      $0x00, Z11, Z1, Z5
	VPCLMULQDQ      $0x11, Z11, Z1, Z1
	VPCLMULQDQ      $0x00, Z12, Z2, Z6
	VPCLMULQDQ      $0x11, Z12, Z2, Z2
	VPTERNLOGD      $0x96, Z4, Z5, Z0
	VPTERNLOGD      $0x96, Z1, Z2, Z6
	VPTERNLOGD      $0x96, Z3, Z6, Z0
	CMPQ            CX, $64
	JB              lanesum

loop64:
	VPCLMULQDQ $0x00, Z12, Z0, Z4
	VPCLMULQDQ $0x11, Z12, Z0, Z0
	VPTERNLOGD $0x96, (SI), Z4, Z0
	ADDQ       $64, SI
	SUBQ       $64, CX
	CMPQ       CX, $64
	JAE        loop64

lanesum:
	// Its four lanes into one.
	VMOVDQU64     lanes<>(SB), Z10
	VPCLMULQDQ    $0x00, Z10, Z0, Z4
	VPCLMULQDQ    $0x11, Z10, Z0, Z5
	VEXTRACTI32X4 $3, Z0, X0
	VPXORQ        Z5, Z4, Z4
	VEXTRACTI64X4 $1, Z4, Y5
	VPXOR         Y5, Y4, Y4
	VEXTRACTI128  $1, Y4, X5
	VPXOR         X5, X4, X4
	VPXOR         X4, X0, X0
	VMOVDQU       fold128<>(SB), X10
	CMPQ          CX, $16
	JB            tail

loop16:
	VPCLMULQDQ $0x00, X10, X0, X4
	VPCLMULQDQ $0x11, X10, X0, X0
	VPXOR      X4, X0, X0
	VPXOR      (SI), X0, X0
	ADDQ       $16, SI
	SUBQ       $16, CX
	CMPQ       CX, $16
	JAE        loop16

tail:
	// CX bytes are left. As many from the front of the lane are folded into the
	// rest of it and those.
	TESTQ      CX, CX
	JZ         finish
	LEAQ       shift<>(SB), DX
	VMOVDQU    (DX)(CX*1), X6
	VMOVDQU    16(DX)(CX*1), X7
	VMOVDQU    -16(SI)(CX*1), X8
	VPSHUFB    X6, X0, X1
	VPSHUFB    X7, X0, X2
	VPBLENDVB  X7, X8, X2, X2
	VPCLMULQDQ $0x00, X10, X1, X4
	VPCLMULQDQ $0x11, X10, X1, X1
	VPXOR      X4, X1, X1
	VPXOR      X1, X2, X0

finish:
	// 128 bits to 96: the low quadword, 96 bits on.
	VPCLMULQDQ $0x10, X10, X0, X4
	VPSRLDQ    $8, X0, X0
	VPXOR      X4, X0, X0

	// 96 bits to 64: the low doubleword, 64 bits on.
	VPCMPEQB   X9, X9, X9
	VPSRLQ     $32, X9, X9
	VPSRLDQ    $4, X0, X4
	VPAND      X9, X0, X0
	VMOVQ      reduce<>(SB), X10
	VPCLMULQDQ $0x00, X10, X0, X0
	VPXOR      X4, X0, X0

	// 64 bits to 32, by Barrett reduction.
	VMOVDQU    barrett<>(SB), X10
	VPAND      X9, X0, X4
	VPCLMULQDQ $0x10, X10, X4, X4
	VPAND      X9, X4, X4
	VPCLMULQDQ $0x00, X10, X4, X4
	VPXOR      X4, X0, X0
	VPEXTRD    $1, X0, AX
	VZEROUPPER
	MOVL       AX, ret+24(FP)
	RET

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
