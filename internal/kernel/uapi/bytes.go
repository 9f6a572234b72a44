package uapi

import "unsafe"

// The ABI's structs are in host byte order and have no implicit padding. So a struct
// is its bytes.

// Load reads a T from the start of b. What b lacks is zero, as in uverbs_cmd.c:
// uverbs_request.
func Load[T any](b []byte) (v T) {
	copy(BytesOf(&v), b)
	return v
}

// BytesOf returns the memory of v. T must not contain pointers.
func BytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// BoolByte returns the byte that stands for b: 1 or 0.
func BoolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// SizeOf returns the size of a T in bytes.
func SizeOf[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
