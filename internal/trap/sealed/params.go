package sealed

// tries is how many memfds one call examines before it says that all are in use. Twice: an open of
// a file makes 32 system calls then. Half: it says so although the fifth one was free. Neither was
// measured.
const tries = 8
