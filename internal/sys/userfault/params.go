package userfault

// mostStops bounds the stops for other reasons, such as signals. Twice: a program with many signals
// keeps a thread of gorxe for longer. Half: it does not lend its faults.
const mostStops = 16
