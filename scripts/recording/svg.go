package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The measures of the picture, in pixels.
const (
	columns   = 100
	charWidth = 8.4
	lineStep  = 19
	margin    = 16
	titleBar  = 34
)

const style = `
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6deeb; white-space: pre; }
  .command { fill: #ffffff; font-weight: 600; }
  .prompt { fill: #7fdb8a; font-weight: 600; }
  .title { fill: #8b98ab; font-size: 12px; }
  @media (prefers-reduced-motion: no-preference) {
    .line { animation: appear 1ms linear both; }
    @keyframes appear { from { opacity: 0.25 } to { opacity: 1 } }
  }
`

// render draws the lines of a terminal. Longer ones are cut.
func render(lines []line) []byte {
	const width int = 2*margin + columns*charWidth
	height := titleBar + 2*margin + lineStep*len(lines)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, escape(label(lines)))
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="9" fill="#0f1724"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<path d="M0 %d V9 A9 9 0 0 1 9 0 H%d A9 9 0 0 1 %d 9 V%d Z" fill="#1c2738"/>`+"\n", titleBar, width-9, width, titleBar)
	for i, color := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", 20+20*i, titleBar/2, color)
	}
	fmt.Fprintf(&b, `<text class="title" x="%d" y="%d" text-anchor="middle">a machine without RDMA hardware</text>`+"\n", width/2, titleBar/2+4)
	at := 400 * time.Millisecond
	for i, l := range lines {
		at += l.wait
		y := titleBar + margin + lineStep*(i+1) - 5
		text, x := cut(l.text), float64(margin)
		fmt.Fprintf(&b, `<g class="line" style="animation-delay:%.2fs">`, at.Seconds())
		class := ""
		if l.command {
			fmt.Fprintf(&b, `<text class="prompt" x="%d" y="%d">$</text>`, margin, y)
			x += 2 * charWidth
			class = ` class="command"`
		}
		if text != "" {
			fmt.Fprintf(&b, `<text%s x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve">%s</text>`,
				class, x, y, charWidth*float64(utf8.RuneCountInString(text)), escape(text))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// label describes the picture for a reader who cannot see it.
func label(lines []line) string {
	var commands []string
	for _, l := range lines {
		if l.command {
			commands = append(commands, l.text)
		}
	}
	return "A terminal session: " + strings.Join(commands, "; ")
}

// cut shortens a line to what fits in a row of the terminal.
func cut(text string) string {
	text = strings.TrimRight(text, " ")
	if utf8.RuneCountInString(text) <= columns-2 {
		return text
	}
	return string([]rune(text)[:columns-3]) + "…"
}

func escape(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.String()
}
