package interop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// reader lets tshark read every packet that gorxe sends, and those of the kernel in cases of RDMA
// CM. It reads some tens of megabytes at a time, while the cases run. tshark must find no malformed
// field.
type reader struct {
	dir     string
	batch   []packet
	bytes   int
	batches chan []packet

	// Until the channel is closed and drained, only run knows these.
	ended   chan struct{}
	packets int
	err     error
}

// batchBytes is how much tshark reads at once.
const batchBytes = 32 << 20

func startReader(dir string) *reader {
	r := &reader{dir: dir, batches: make(chan []packet, 4), ended: make(chan struct{})}
	go r.run()
	return r
}

func (r *reader) add(p packet) {
	r.batch = append(r.batch, p)
	if r.bytes += len(p.data); r.bytes >= batchBytes {
		r.hand()
	}
}

// hand gives a batch away. It waits when tshark is far behind.
func (r *reader) hand() {
	r.batches <- r.batch
	r.batch, r.bytes = nil, 0
}

// finish waits for tshark, and says what it found.
func (r *reader) finish() error {
	if len(r.batch) > 0 {
		r.hand()
	}
	close(r.batches)
	<-r.ended
	if r.err == nil {
		fmt.Printf("interop: tshark finds nothing malformed in %d packets; gorxe sent %d opcodes\n", r.packets, len(results.Opcodes))
	}
	return r.err
}

func (r *reader) run() {
	defer close(r.ended)
	for n := 0; ; n++ {
		batch, more := <-r.batches
		if !more {
			return
		}
		path := filepath.Join(r.dir, fmt.Sprintf("tshark-%d.pcapng", n))
		err := save(path, batch)
		if err == nil {
			err = wireshark(path)
		}
		if err == nil {
			err = os.Remove(path)
		}
		r.err = errors.Join(r.err, err)
		r.packets += len(batch)
	}
}

// wireshark lets tshark read a file of RoCE packets.
func wireshark(path string) error {
	// Payloads may look like another protocol by chance.
	const own = `!(frame.protocols contains "infiniband:")`
	args := []string{"-n", "19", "tshark", "-n", "-r", path, "-Y", "(_ws.malformed && " + own + ") || !infiniband.bth"}
	for _, guesser := range []string{
		"smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband.eoib",
		"infiniband_sdp", "fcoib", "drbd", "ethertype", "ipoib",
	} {
		args = append(args, "--disable-protocol", guesser)
	}
	var said, complaint bytes.Buffer
	cmd := exec.Command("nice", args...)
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tshark: %w\n%s", err, complaint.String())
	}
	if said.Len() > 0 {
		return fmt.Errorf("tshark finds malformed packets in %s:\n%s", path, said.String())
	}
	return nil
}
