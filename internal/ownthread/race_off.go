//go:build !race

package ownthread

const raceDetector = false
