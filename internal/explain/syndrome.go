package explain

import (
	"regexp"
	"strconv"

	"github.com/gorxe/gorxe/rxe"
)

// syndromes are what completions of mlx5 say of an error (MLX5_CQE_SYNDROME_* of mlx5dv.h), and
// what libmlx5 makes of it (providers/mlx5/cq.c: mlx5_handle_error_cqe).
var syndromes = map[uint64]rxe.WCStatus{
	0x01: rxe.WCLocLenErr, 0x02: rxe.WCLocQPOpErr, 0x04: rxe.WCLocProtErr, 0x05: rxe.WCFlushErr, 0x06: rxe.WCMWBindErr,
	0x10: rxe.WCBadRespErr, 0x11: rxe.WCLocAccessErr, 0x12: rxe.WCRemInvReqErr, 0x13: rxe.WCRemAccessErr,
	0x14: rxe.WCRemOpErr, 0x15: rxe.WCRetryExcErr, 0x16: rxe.WCRNRRetryErr, 0x22: rxe.WCRemAbortErr,
}

// syndromeForms are how programs print one: "synd 0x15" (UCX), or the last line of the completion
// that libmlx5 and the kernel dump below "got completion with error". Its second word ends with the
// vendor's syndrome and with this one (struct mlx5_err_cqe).
var syndromeForms = []*regexp.Regexp{
	regexp.MustCompile(`\bsynd(?:rome)?[ :=]*(?:0x)?([0-9a-f]{1,2})\b`),
	regexp.MustCompile(`^\s*[0-9a-f]{8} [0-9a-f]{6}([0-9a-f]{2}) [0-9a-f]{8} [0-9a-f]{6}[de][0-9a-f]\s*$`),
}

// syndrome calls add for the status of a syndrome in a line, in lower case.
func syndrome(line string, add func(*Word)) {
	for _, form := range syndromeForms {
		m := form.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.ParseUint(m[1], 16, 8)
		if s, ok := syndromes[n]; ok && err == nil {
			add(wordOf(s))
		}
	}
}
