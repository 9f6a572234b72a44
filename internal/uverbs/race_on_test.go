//go:build race

package uverbs

const raceEnabled = true
