// Package layers has the RoCEv2 headers as gopacket layers: a BTH layer, a layer for
// each extension header that the opcode has, in their order on the wire, and the
// payload without pad and ICRC. The layers decode and serialize.
//
// Importing the package changes nothing. Register makes gopacket find the layers
// behind UDP port 4791.
package layers
