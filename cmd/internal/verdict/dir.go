package verdict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// MarkFile marks the directory as one of a verdict, so that the next run may replace what is there.
const MarkFile = ".gorxe-verdict"

const markText = "A run of gorxe wrote its verdict here. The next one with this directory replaces it.\n"

// written are the files of a verdict. A run that was killed leaves its capture as well.
var written = []string{MarkFile, PageFile, CaptureFile, LadderFile, CheckFile, CheckJSON, ObjectsFile, FaultsFile, ErrorsFile, RunFile, MisuseFile, SARIFFile}

// Prepare makes the directory of a verdict, and proves that files can be written there. The
// directory must be empty, or not exist, or have nothing but an earlier verdict, which is removed.
// Until Write or Discard, or the end of this process, no other process can prepare the directory.
func Prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := mark(dir); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() == MarkFile {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(CapturePath(dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// marked is the open file of the mark, with its lock.
var marked *os.File

// unlock lets the next run have the directory.
func unlock() {
	if marked != nil {
		marked.Close()
		marked = nil
	}
}

// mark marks a directory that has nothing but a verdict, and locks the mark.
func mark(dir string) error {
	name, flags := filepath.Join(dir, MarkFile), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) && len(list) > 0 {
		return fmt.Errorf("%s: it has files, as %s: give an empty directory, or one that does not exist, or that of an earlier verdict", dir, list[0].Name())
	}
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("%s: another run writes its verdict there: give each of them a directory of its own", dir)
	case err == nil:
		err = onlyWritten(dir, list)
	}
	if err == nil && len(list) == 0 {
		_, err = f.WriteString(markText)
	}
	if err != nil {
		f.Close()
		return err
	}
	marked = f
	return nil
}

// onlyWritten refuses a directory with a file that no verdict has.
func onlyWritten(dir string, list []fs.DirEntry) error {
	for _, e := range list {
		// the pattern is correct
		if capture, _ := filepath.Match(anyCapture, e.Name()); !capture && !slices.Contains(written, e.Name()) {
			return fmt.Errorf("%s: it has %s beside an earlier verdict: remove that, or give another directory", dir, e.Name())
		}
	}
	return nil
}

// Discard removes what Prepare and the run have made, and the directory if nothing else is in it. A
// directory that Prepare did not take stays as it is.
func Discard(dir string) error {
	defer unlock()
	switch err := os.Remove(CapturePath(dir)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if err := os.Remove(filepath.Join(dir, MarkFile)); err != nil {
		return err
	}
	_ = unix.Rmdir(dir) // others may have put files there; a link to a directory stays
	return nil
}
