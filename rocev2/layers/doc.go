// Package layers has the RoCEv2 headers as gopacket layers, which decode and serialize.
// A packet has a BTH layer, a layer for each extension header of its opcode, and the
// payload without pad and ICRC.
//
// Importing the package changes nothing. Register makes gopacket find the layers
// behind UDP port 4791.
package layers
