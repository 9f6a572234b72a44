package proto

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gorxe/gorxe/internal/kernel/tree"
)

// Seen is a device as programs find it in /sys and /dev.
type Seen = tree.Seen

// Attribute is a file of sysfs.
type Attribute = tree.Attribute

// Seen returns what programs find of the daemon's devices.
func (c *Client) Seen() ([]Seen, error) {
	var list []Seen
	err := c.text(OpSeen, &list)
	return list, err
}

// maxText bounds what a client reads.
const maxText = 64 << 20

// text makes a request whose answer is JSON in a memfd.
func (c *Client) text(op string, v any) error {
	_, fds, err := c.Call(Request{Op: op})
	if err != nil {
		return err
	}
	if len(fds) != 1 {
		CloseAll(fds)
		return ErrVersion
	}
	f := os.NewFile(uintptr(fds[0]), op)
	defer f.Close()
	if err := json.NewDecoder(io.NewSectionReader(f, 0, maxText)).Decode(v); err != nil {
		return fmt.Errorf("the daemon's answer to the request %q: %w", op, err)
	}
	return nil
}
