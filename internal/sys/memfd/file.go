package memfd

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// File is a descriptor of a memfd.
type File int

// ReadAt implements io.ReaderAt.
func (f File) ReadAt(p []byte, off int64) (int, error) { return unix.Pread(int(f), p, off) }

// WriteAt implements io.WriterAt.
func (f File) WriteAt(p []byte, off int64) (int, error) { return unix.Pwrite(int(f), p, off) }

// Data returns the next part at or behind off that may have data. The error is io.EOF if there is
// none. The offset of the file's description moves.
func (f File) Data(off int64) (from, to int64, err error) {
	if from, err = unix.Seek(int(f), off, unix.SEEK_DATA); err != nil {
		if errors.Is(err, unix.ENXIO) {
			err = io.EOF
		}
		return 0, 0, err
	}
	to, err = unix.Seek(int(f), from, unix.SEEK_HOLE)
	return from, to, err
}
