package interop

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/gorxe/gorxe/wire"
)

// curated are the captures that tests of other packages use. Each has the packets of some
// cases, one after the other, and a text beside it.
var curated = []struct {
	file  string
	shows string
	cases string // their names, as a regular expression
	suite string // of the kernel
	bytes int    // at most so many of each case: the beginning of a long one
	alone bool   // between two kernels
	// What gorxe pcap check finds, or empty.
	verdict string
	moment  bool // of a defect, and no more
}{
	{"interop-operations", "WRITE, READ, atomics; a fence, inline data, READs and atomics beyond the depth of 4; 8 READs at max_rd_atomic 3 (the kernel keeps 4 outstanding); PSNs wrap.",
		`^TestAtomics/|^TestOrder/|^TestDepth/`, "bookworm", 30_000, false, "", false},
	{"interop-transfers", "SEND, WRITE, READ, with and without immediate, of 0 to 4 KiB over RC and UC; PSNs wrap.",
		`^TestTransfers/RC,_path_MTU_256/|^TestTransfers/UC`, "bookworm", 30_000, false, "", false},
	{"interop-datagrams", "UD with and without immediate, with a wrong Q_Key, multicast.",
		`^TestUD/`, "bookworm", 6_000, false, "", false},
	{"interop-mistakes", "Each mistake and the answer to it: remote access error, invalid request, remote operational error, and silence.",
		`^TestMistakes/|^TestReceives/SEND`, "bookworm", 10_000, false, "", false},
	{"interop-not-ready", "RNR NAKs: a receive that is posted later (what was under way behind the first SEND gets one NAK for its sequence), and one that never is.",
		`^TestReceives/(then|never)`, "bookworm", 20_000, false, "", false},
	{"interop-windows", "Memory windows of both types, SEND with invalidate, and WRITEs to what is not bound any more.",
		`^TestWindows/`, "bookworm", 20_000, false, "", false},
	{"interop-loss", "Loss of 5 % in one direction, then in the other (tc-netem in the guest, behind the capture: what it drops on the way to the kernel is here, what it drops on the way to gorxe is not): sequence NAKs, timeouts, go-back-N, READs that go on where they stopped. The beginning.",
		`^TestFaults/loss_5`, "bookworm", 65_000, false, "", false},
	{"interop-atomic-write", "ATOMIC WRITE, and one with the rkey of nothing.",
		`^TestAtomicWrite/`, "bookworm-backports", 10_000, false, "", false},
	{"interop-kernels-operations", "Two kernels: WRITE, READ, both atomics; a fence, inline data, READs and atomics beyond the depth of 4; ATOMIC WRITE, and one with the rkey of nothing.",
		`^Test(Atomics|Order|AtomicWrite)/.*IPv4/client`, "bookworm-backports", 30_000, true, "", false},
	{"interop-kernels-mistakes", "Two kernels: each mistake and the answer to it.",
		`^TestMistakes/.*IPv4/client|^TestReceives/(SEND|never).*IPv4/client`, "bookworm-backports", 5_000, true, "", false},
	{"defects/interop-kernels-flush", "Two kernels: FLUSH of a range and of a region, with the ICRC that covers the headers twice, which both give it and look for.",
		`^TestFlush/FLUSH_of.*IPv4/client`, "bookworm-backports", 10_000, true, "icrc: the FLUSH packets that the kernel sealed, and no others.", false},
	// Aside: other readers would refuse its ICRCs.
	{"defects/interop-flush", "FLUSH, each twice: the ICRC that rdma_rxe gives it and looks for covers the headers twice; the test seals each again, so that the other side accepts it.",
		`^TestFlush/FLUSH_of|^TestFlush/FLUSH,`, "bookworm-backports", 10_000, false, "icrc: the FLUSH packets that the kernel sealed, and no others.", false},
	{"defects/interop-stray", "A READ that is answered as an atomic is, by a packet that the test made: rdma_rxe completes it with success.",
		`^TestStrays/READ.*IPv4/server`, "bookworm-backports", 10_000, false, "", false},
	{"defects/interop-crossed", "Both sides leave a connection at once. rdma_cm has its DREP, and answers the DREQ of the other with the transaction ID of its own DREQ. Few runs show it.",
		`^TestRDMACM/rdma_client/IPv4/server`, "bookworm", 10_000, false, "cm-transaction: a warning, for the last DREP.", true},
	{"defects/interop-delay", "A delay above the timeout (tc-netem in the guest, before the capture). The end: after a timeout rdma_rxe sends a WRITE of which all was acknowledged again, as one of zero bytes with the PSN of the READ behind it; every PSN from there on is one too high, and the queue pair ends with FATAL_ERR.",
		`^TestFaults/delay.*to_gorxe`, "bookworm-backports", 60_000, false, "qp-restarted: a note, where the PSNs shift.", true},
	{"defects/interop-kernels-reordering", "Two kernels, answers in another order (tc-netem in the guest that sends them, before the capture). The end: the other asks again, every answer comes, and it completes the READ with success, of which the program has other data, and what is behind that with WR_FLUSH_ERR.",
		`^TestFaults/reordering_to_the_kernel`, "bookworm-backports", 60_000, true, "", true},
}

// curation collects the packets of the curated captures.
var curation = map[string][]packet{}

func curate(tr *trial) {
	for _, c := range curated {
		if c.suite != lab.kernel.suite || c.alone != kernels || !regexp.MustCompile(c.cases).MatchString(tr.Name()) {
			continue
		}
		packets := tr.packets
		if c.moment {
			packets = tr.moment
		}
		for left := c.bytes; len(packets) > 0; packets = packets[1:] {
			if left -= len(packets[0].data); left < 0 {
				break
			}
			curation[c.file] = append(curation[c.file], packets[0])
		}
	}
}

// ending returns the end of a conversation. It begins with the last request before which
// all requests were answered.
func ending(packets []packet) []packet {
	at, newest := 0, wire.PSN(0)
	var before wire.Packet
	for i, p := range packets {
		q, ok := transport(p.data)
		if !ok {
			continue
		}
		if q.Info().Has(wire.OpRequest) && (i == 0 || newest.Less(q.PSN())) {
			newest = q.PSN()
			if i > 0 && before.Info().Has(wire.OpResponse) && before.PSN().Next() == newest {
				at = i
			}
		}
		before = q
	}
	return packets[at:]
}

// writeCurated writes the captures of the kernel that this process tests.
func writeCurated(dir string) error {
	tools, err := exec.Command("dpkg-query", "-W", "-f", "${Package} ${Version}, ", "libibverbs1", "perftest", "qemu-system-x86").Output()
	if err != nil {
		return fmt.Errorf("dpkg-query: %w", err)
	}
	for _, c := range curated {
		packets := curation[c.file]
		if len(packets) == 0 {
			continue
		}
		if err := writePcap(filepath.Join(dir, c.file+".pcap"), packets); err != nil {
			return err
		}
		verdict := cmp.Or(c.verdict, "no finding.")
		ends, how := "gorxe (%s, %s) and the rdma_rxe of %s in an emulated machine\n(%s, %s), on the tap between them", ""
		if c.alone {
			ends = "Two emulated machines, (%s, %s), both with the rdma_rxe of %s, and\n(%s, %s), on the tap of the latter"
			how = "GORXE_INTEROP_PEER=kernel "
		}
		text := fmt.Sprintf("%s\n\n"+ends+"; link MTU %d, no offloads.\n", c.shows,
			lab.gorxe.addr, lab.gorxe.addr6, lab.release, lab.guest.addr, lab.guest.addr6, linkMTU) +
			fmt.Sprintf(`Made by: %sgo test ./internal/test/interop -captures; the cases
%s
Programs: %s.
Licence: made for this project; none restricts it.
Verdict: %s
`, how, c.cases, strings.TrimSuffix(string(tools), ", "), verdict)
		if err := os.WriteFile(filepath.Join(dir, c.file+".txt"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func writePcap(path string, packets []packet) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := pcapgo.NewWriter(file)
	err = w.WriteFileHeader(1<<16, layers.LinkTypeEthernet)
	for _, p := range packets {
		if err == nil {
			err = w.WritePacket(gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(p.data), Length: len(p.data)}, p.data)
		}
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
