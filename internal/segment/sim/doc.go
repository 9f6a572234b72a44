// Package sim holds the tests of virtual segments with the engine's devices: random frames, flow
// rules, queues and RSS, compared with a simple model.
//
// A seed draws a world (world_test.go): devices, on which two users have queue pairs, work queues
// and rules, and what they do in each step (acts_test.go). They send frames (frame_test.go), post
// receives, add and remove rules, break queues, and end things in any order. The model
// (model_test.go, rule_test.go) does the same with lists and maps, without the tables, parsers and
// checksums of the packages tested. After each step every completion, every byte received and every
// counter must be as the model says.
//
// The model reads no frames: it knows from what a frame was made which headers are whole.
package sim
