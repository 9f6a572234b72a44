package mmsg

// batchLen is how many frames one call takes. Twice: another 2 MiB of addresses for a socket, and
// no less time. A quarter: a tenth more time for a short frame.
const batchLen = 32
