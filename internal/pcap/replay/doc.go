// Package replay holds the engine in package rxe to what captured devices did.
//
// Each direction of each connection of a capture is played twice. As the
// responder, the engine gets the captured requests, and its responses are compared
// with the captured ones (responder*.go). As the requester, it is given the work
// requests that the captured packets stand for, gets the captured responses, and
// its requests are compared (requester*.go, workrequest.go). Datagrams and UC have no
// responses: the engine is their requester only. XRC is played as RC (xrc.go).
//
// load.go reads a capture and cuts it into sessions: one queue pair's requests,
// and the responses to them, from one reset to the next. What the capture implies
// of the device that it shows is learnt from the whole session before it is
// played: PSNs and path MTU, which keys give which rights to which memory
// (keys.go), what READs and atomics found there (memory.go), when no receive was
// posted, when a packet did not arrive (outcome.go). host.go is the engine with
// nothing around it: a link that keeps what is sent, a clock that goes on when the
// replay says so. Queue pair numbers and keys are the engine's own; they are
// translated in the packets that are played.
//
// What the specification leaves free is no difference: how acknowledgements are
// coalesced, credits, when an acknowledgement is asked for, time, and where a
// retry begins. What differs beyond that is a Difference, named by what it is
// about, and explained where both behaviours are known and allowed (explain.go).
package replay
