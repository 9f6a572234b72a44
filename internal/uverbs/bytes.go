package uverbs

import "unsafe"

// The ABI's structs are in host byte order and have no implicit padding, so a
// struct is its bytes. abi_test.go checks every offset against the C headers.

// load reads a T from the start of b; what b lacks is zero, as uverbs_request
// of uverbs_cmd.c has it.
func load[T any](b []byte) (v T) {
	copy(bytesOf(&v), b)
	return v
}

// bytesOf is v's memory. T must not contain pointers.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// sizeOf is the size of a T in bytes.
func sizeOf[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
