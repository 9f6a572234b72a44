package cm

import "github.com/gorxe/gorxe/wire"

// peer is what a connection knows of its other end. Zero fields are not known yet.
type peer struct {
	guid   uint64
	commID uint32
	qpn    wire.QPN
}

type peerCommID struct {
	guid uint64
	id   uint32
}

// peerQPN has the peer's user, too: programs say which queue pair their REQ names, and must not
// make another user's connections stale.
type peerQPN struct {
	guid uint64
	qpn  wire.QPN
	user any // Conn.peerUser; nil for one of another host
}

// peerTable finds connections by their peer. A REQ with the comm ID of an entry is a
// duplicate. A REQ or REP with the queue pair of an entry says that the peer has
// forgotten that connection: the entry is stale (IBA 12.9.8.3). An entry ends when its
// connection fails or enters timewait (cm_remove_remote).
type peerTable struct {
	byCommID map[peerCommID]*Conn
	byQPN    map[peerQPN]*Conn
}

func newPeerTable() peerTable {
	return peerTable{byCommID: make(map[peerCommID]*Conn), byQPN: make(map[peerQPN]*Conn)}
}

func (t *peerTable) withCommID(guid uint64, id uint32) *Conn { return t.byCommID[peerCommID{guid, id}] }
func (t *peerTable) withQPN(guid uint64, qpn wire.QPN, user any) *Conn {
	return t.byQPN[queuePairOf(guid, qpn, user)]
}

// queuePairOf returns the key of a peer's queue pair. The addresses of another host are not told
// apart, as in Linux.
func queuePairOf(guid uint64, qpn wire.QPN, user any) peerQPN {
	if _, isAddress := user.(wire.GID); isAddress {
		user = nil
	}
	return peerQPN{guid, qpn, user}
}

// add enters a connection. There must be no entry for its peer.
func (t *peerTable) add(c *Conn) {
	t.byCommID[peerCommID{c.peer.guid, c.peer.commID}] = c
	t.byQPN[queuePairOf(c.peer.guid, c.peer.qpn, c.peerUser)] = c
	c.inPeers = true
}

// remove takes a connection out, if it is in.
func (t *peerTable) remove(c *Conn) {
	if !c.inPeers {
		return
	}
	delete(t.byCommID, peerCommID{c.peer.guid, c.peer.commID})
	delete(t.byQPN, queuePairOf(c.peer.guid, c.peer.qpn, c.peerUser))
	c.inPeers = false
}
