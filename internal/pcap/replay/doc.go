// Package replay compares the engine in package rxe with captured devices.
//
// Each direction of each connection of a capture is played twice:
//
//   - As responder, the engine gets the captured requests, and its responses are
//     compared with the captured ones (responder*.go).
//   - As requester, it gets work requests that match the captured packets, and the
//     captured responses. Its requests are compared (requester*.go, workrequest.go).
//
// Datagrams and UC have no responses, so the engine is only their requester. XRC has an initiator
// as requester, and a target with a domain and SRQs as responder (xrc.go).
//
// Messages of connection managers are datagrams, and more: package cm is played as each side of
// each connection (cmtalk.go, cm.go).
//
// load.go reads a capture and divides it into sessions. A session is one queue pair's
// requests and the responses to them, from one reset to the next. The whole session is
// read before it is played, to learn about the captured device:
//
//   - PSNs and path MTU;
//   - the rights and the memory of each key (keys.go);
//   - what READs and atomics found in memory (memory.go);
//   - when no receive was posted, and which packets did not arrive (outcome.go).
//
// host.go runs the engine alone, with a link that keeps the packets sent and a clock
// that the replay advances. The engine has its own queue pair numbers and keys, and
// these are translated in the packets that are played.
//
// The specification leaves some behavior open: how acknowledgements are coalesced,
// credits, when an acknowledgement is asked for, time, and where a retry begins. All
// else that differs is a Difference. It is explained if both behaviors are known and
// allowed (explain.go).
package replay
