// Command recording runs the commands of session.txt in a real shell and draws what the terminal
// showed, as an SVG file: the picture of README.md. The lines appear one after the other; a viewer
// without animation shows them all. Before its time a line is dim, so a picture of the beginning is
// no empty box.
//
//	make build && go run ./scripts/recording        # writes docs/session.svg
//
// A line of session.txt that begins with "$ " is shown and run. One that begins with "! "
// is run only. If a shown command ends with "&", its output is left out.
package main
