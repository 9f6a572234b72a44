//go:build !race

package engine

func raceSend()    {}
func raceReceive() {}
