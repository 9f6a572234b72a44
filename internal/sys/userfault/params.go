package userfault

import "time"

// mostStops bounds the stops for other reasons, such as signals. Twice: a program with many signals
// keeps a thread of gorxe for longer. Half: it does not lend its faults.
const mostStops = 16

// seizeLimit bounds the wait for a thread that shall be seized, which takes 0.1 ms. Twice: a
// hostile program has its own calls wait for 2 s. Half: on a busy machine, a program does not lend
// its faults.
const seizeLimit = time.Second
