package pair

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// labeled makes the output of a command carry a label in front of each line. The returned function is called
// once the command has started, or has failed to. Its result waits until all output is written, but not for
// processes that the command left in the background.
func labeled(cmd *exec.Cmd, label string, stdout, stderr io.Writer) (started func() (drained func()), err error) {
	var done sync.WaitGroup
	var theirs, ours []*os.File
	copies := make([]func(), 0, 2)
	for _, s := range []struct {
		to  io.Writer
		set func(*os.File)
	}{
		{stdout, func(f *os.File) { cmd.Stdout = f }},
		{stderr, func(f *os.File) { cmd.Stderr = f }},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(ours, theirs...))
			return nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
		s.set(w)
		copies = append(copies, func() { copyLines(s.to, label, r) })
	}
	return func() func() {
		closeAll(theirs)
		for _, c := range copies {
			done.Go(c)
		}
		return func() {
			drained := make(chan struct{})
			go func() {
				done.Wait()
				close(drained)
			}()
			select {
			case <-drained:
			case <-time.After(drainLimit):
			}
			closeAll(ours)
		}
	}, nil
}

// drainLimit is for processes that a program has left, and that keep its output open.
const drainLimit = time.Second

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() //nolint:errcheck // pipes
	}
}

// maxLine is the length at which a line is printed though it has not ended.
const maxLine = 64 << 10

// copyLines writes each line with its label in one piece, so that lines of two programs do not mix.
func copyLines(to io.Writer, label string, from io.Reader) {
	r := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			text := append([]byte(label), line...)
			if line[len(line)-1] != '\n' {
				text = append(text, '\n')
			}
			to.Write(text) //nolint:errcheck // nobody reads: the program goes on
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
