package proto

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
)

// Build says which build of gorxe a process runs.
type Build struct {
	Version string `json:"version,omitempty"` // for people; two builds may have the same
	ID      string `json:"id,omitempty"`      // of the executable's content
}

// String formats the build for people.
func (b Build) String() string {
	if b == (Build{}) {
		return "an older one"
	}
	return fmt.Sprintf("%s, build %.8s", b.Version, b.ID)
}

// ThisBuild is the build of this process.
var ThisBuild = sync.OnceValue(func() Build {
	b := Build{Version: "(devel)", ID: ExecutableID("/proc/self/exe")}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	return b
})

// ExecutableID returns the last part of Go's build ID, which is a hash of the executable's
// content (cmd/go/internal/work/buildid.go). It hashes an executable that has no build ID,
// which takes longer.
func ExecutableID(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	if id := goBuildID(f); id != "" {
		return id[strings.LastIndexByte(id, '/')+1:]
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// goBuildID returns the build ID in an ELF file, or an empty string.
func goBuildID(f io.ReaderAt) string {
	file, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	section := file.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	const head = 16 // three words and the name, "Go" (elf(5))
	if err != nil || len(note) < head {
		return ""
	}
	return string(bytes.TrimRight(note[head:], "\x00"))
}
