package rxe

// Payload begins at a multiple of lineBytes in the buffers of this package. Some processors take
// four times as long for a copy whose destination is 1 to 15 bytes beyond the source, modulo 4096
// ("rep movsb", which the kernel copies with). Programs' buffers mostly begin at a page. A BTH has
// 12 bytes, so payload behind a BTH at the start of a page is copied that slowly.

// lineUp rounds up to a multiple of lineBytes.
func lineUp(n int) int { return (n + lineBytes - 1) &^ (lineBytes - 1) }
