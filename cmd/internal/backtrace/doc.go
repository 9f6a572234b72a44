// Package backtrace finds out which lines of a program stand for the stacks of a sanitizer's
// report. It unwinds them by .eh_frame, and names functions and lines by DWARF or by the symbol
// table.
//
// It reads the program's files, which belong to the user: so it runs in gorxe run, and not in the
// daemon. The daemon copies stacks only. A stack is that of a thread in a system call. Of its
// registers only the stack pointer and the program counter are known, so it ends where another one
// is needed that no callee has saved.
package backtrace
