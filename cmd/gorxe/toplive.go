package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorxe/gorxe/internal/sys/terminal"
)

// topView is what a report shows beside the numbers.
type topView struct {
	paint
	height  int // lines; 0 is no limit
	sort    string
	history map[string][]float64 // packets per second of each device, the last ones
	live    bool
}

// maxHistory is how many reports a sparkline shows.
const maxHistory = 24

// remember adds a report to the sparklines.
func (v *topView) remember(now, before *sample) {
	if v.history == nil {
		v.history = make(map[string][]float64)
	}
	for _, d := range now.devices(before) {
		list := append(v.history[d.Name], d.Packets)
		v.history[d.Name] = list[max(0, len(list)-maxHistory):]
	}
}

// spark draws numbers as bars.
func spark(list []float64) string {
	bars, most := []rune("▁▂▃▄▅▆▇█"), 0.0
	for _, x := range list {
		most = max(most, x)
	}
	line := make([]rune, len(list))
	for i, x := range list {
		line[i] = bars[0]
		if most > 0 {
			line[i] = bars[int(x/most*float64(len(bars)-1)+0.5)]
		}
	}
	return string(line)
}

// topKeys are the keys of the live view, and what they sort by.
var topKeys = map[byte]string{'p': "packets", 's': "sent", 'r': "received", 'l': "lost", 'u': "queued", 'n': "process"}

// keysOf passes the keys that are pressed in a terminal. undo must be called at the end.
func keysOf() (keys <-chan byte, undo func()) {
	undo, err := terminal.Keys(os.Stdin)
	if err != nil {
		return nil, func() {}
	}
	pressed := make(chan byte)
	go func() {
		var b [1]byte
		for {
			if n, err := os.Stdin.Read(b[:]); n != 1 || err != nil {
				return
			}
			pressed <- b[0]
		}
	}()
	return pressed, undo
}

// live shows reports in a terminal until q is pressed.
func (c topCmd) live(newContext contexts, std streams) error {
	ctx, err := newContext()
	if err != nil {
		return err
	}
	keys, undo := keysOf()
	defer undo()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	view := &topView{paint: paintOf(std.out), sort: c.Sort, live: keys != nil}
	var now, before *sample
	draw := func() error {
		_, view.height = terminal.Size(std.out)
		var b bytes.Buffer
		b.WriteString(homeAndClear)
		if err := writeTop(&screen{&b, std.out}, now, before, view); err != nil {
			return err
		}
		_, err := b.WriteTo(std.out)
		return err
	}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		st, err := askStatus(c.Socket)
		if err != nil {
			return err
		}
		before, now = now, newSample(st, time.Now())
		view.remember(now, before)
		if err := draw(); err != nil || n == c.Count {
			return err
		}
		if err := view.wait(ctx.Done(), tick.C, keys, resized, draw); err != nil {
			if errors.Is(err, errTopDone) {
				return nil
			}
			return err
		}
	}
}

// wait waits for the next report, and does what keys say.
func (v *topView) wait(done <-chan struct{}, tick <-chan time.Time, keys <-chan byte, resized <-chan os.Signal, draw func() error) error {
	for {
		select {
		case <-done:
			return errTopDone
		case <-tick:
			return nil
		case <-resized:
		case key := <-keys:
			if key == 'q' {
				return errTopDone
			}
			by, ok := topKeys[key]
			if !ok {
				continue
			}
			v.sort = by
		}
		if err := draw(); err != nil {
			return err
		}
	}
}

// screen is a buffer for a terminal, which has its size.
type screen struct {
	io.Writer
	terminal io.Writer
}

// footer says which keys there are.
func (v *topView) footer(w io.Writer) {
	if v.live {
		fmt.Fprintln(w, v.as(dim, "q ends; sort by p packets, s sent, r received, l lost, u queued, n process"))
	}
}
