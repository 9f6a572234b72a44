package ladder

import (
	"errors"
	"io"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// Read feeds a capture to a checker, and each packet with its verdict to add. It
// returns the findings of the end. On an error, which is that of reading or add's,
// what came before it counts.
func Read(in io.Reader, add func(*capture.Packet, *conformance.Verdict) error) ([]conformance.Finding, conformance.Summary, error) {
	c, err := conformance.New(conformance.Options{})
	if err != nil {
		return nil, conformance.Summary{}, err
	}
	r, err := capture.NewReader(in)
	if err != nil {
		return nil, c.Summary(), err
	}
	var p capture.Packet
	for {
		err = r.Next(&p)
		if errors.Is(err, io.EOF) {
			err = nil
			break
		}
		if err != nil {
			break
		}
		if err = add(&p, c.Add(&p)); err != nil {
			break
		}
	}
	last := c.Close()
	return last, c.Summary(), err
}
