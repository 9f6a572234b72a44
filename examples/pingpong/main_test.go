package main

import (
	"context"
	"fmt"
	"os"
)

// Two addresses that no other process uses at the same time.
func Example() {
	pid := os.Getpid()
	a := fmt.Sprintf("127.81.%d.%d", pid>>8&0xff, pid&0xff)
	b := fmt.Sprintf("127.82.%d.%d", pid>>8&0xff, pid&0xff)
	if err := pingPong(context.Background(), os.Stdout, a, b, 100, "default"); err != nil {
		fmt.Println(err)
	}
	// Output: 100 round trips of 4096 bytes, all intact
}
