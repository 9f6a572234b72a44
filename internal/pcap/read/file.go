package read

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// File is an open capture. It is for one goroutine.
type File struct {
	// Title names the capture for readers: the last element of the file's path.
	Title string

	ctx      context.Context
	file     *os.File
	progress *Progress
}

// Open opens the capture of the given name; - is standard input. Reading fails once
// ctx is done. Progress may be nil.
func Open(ctx context.Context, name string, progress *Progress) (*File, error) {
	f := &File{Title: "standard input", ctx: ctx, file: os.Stdin, progress: progress}
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		f.file, f.Title = file, filepath.Base(name)
	}
	progress.start(f.file)
	return f, nil
}

// Close closes the file, unless it is standard input.
func (f *File) Close() error {
	if f.file == os.Stdin {
		return nil
	}
	return f.file.Close()
}

// Read implements io.Reader. The reader of captures asks for large pieces, so that
// asking the context each time costs nothing.
func (f *File) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.file.Read(b)
	f.progress.advance(n)
	return n, err
}

// Check is conformance.Read of the file. It counts packets for the progress.
func (f *File) Check(opts conformance.Options, visit func(*capture.Packet, *conformance.Verdict) error) (*conformance.Report, error) {
	return conformance.Read(f, opts, func(p *capture.Packet, v *conformance.Verdict) error {
		f.progress.packet()
		if visit == nil {
			return nil
		}
		return visit(p, v)
	})
}

var _ io.ReadCloser = (*File)(nil)
