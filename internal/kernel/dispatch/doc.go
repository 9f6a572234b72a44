// Package dispatch takes a request of a program to the handler of a verb, and its answer
// back. It is what drivers/infiniband/core has in uverbs_ioctl.c, uverbs_main.c and
// rdma_core.c: it reads the headers of both forms, checks attributes against their
// schema (spec.go), and finds the objects behind handles (handles.go).
//
// A Call is one request. Its Owner is the open file. Tables name the handlers, which the
// family of files brings: dispatch knows no verb, and no object of the engine.
package dispatch
