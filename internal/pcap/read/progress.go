package read

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Progress shows on a terminal how much of a capture has been read, if reading it
// takes long. A nil *Progress shows nothing.
type Progress struct {
	out     io.Writer
	size    int64 // of the file; 0 if it is not known
	read    int64
	packets int64
	began   time.Time
	next    time.Time // of the next line
	visible bool
}

const progressEvery = 250 * time.Millisecond

// NewProgress returns a Progress that writes to a terminal.
func NewProgress(out io.Writer) *Progress { return &Progress{out: out} }

func (p *Progress) start(file *os.File) {
	if p == nil {
		return
	}
	p.began = time.Now()
	p.next = p.began.Add(2 * progressEvery)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		p.size = info.Size()
	}
}

func (p *Progress) packet() {
	if p != nil {
		p.packets++
	}
}

// advance counts n bytes more, and rewrites the line if it is time.
func (p *Progress) advance(n int) {
	if p == nil {
		return
	}
	p.read += int64(n)
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressEvery)
		p.show(now)
	}
}

func (p *Progress) show(now time.Time) {
	const width = 30
	rate := float64(p.packets) / now.Sub(p.began).Seconds() / 1e6
	bar := ""
	if p.size > 0 {
		done := min(int(p.read*width/p.size), width)
		bar = fmt.Sprintf("[%s%s] %3d %%  ", strings.Repeat("#", done), strings.Repeat(".", width-done), p.read*100/p.size)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s%.1f million packets, %.2f million/s", bar, float64(p.packets)/1e6, rate)
	p.visible = true
}

// Clear removes the line, so that something else can be printed.
func (p *Progress) Clear() {
	if p != nil && p.visible {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.visible = false
	}
}
