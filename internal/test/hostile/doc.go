// Package hostile attacks devices and daemons as users and hosts could, beside an honest
// pair of programs. The honest pair is the judge: its messages arrive, and are what was sent.
//
// GORXE_HOSTILE=DURATION runs the attacks for that long. Without it they run once.
package hostile
