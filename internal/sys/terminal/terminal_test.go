package terminal

import (
	"bytes"
	"os"
	"testing"
)

// TestNone: a buffer is no terminal, so that progress is not shown in one. Nor is a file.
func TestNone(t *testing.T) {
	if Is(new(bytes.Buffer)) {
		t.Error("a buffer is no terminal")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if columns, rows := Size(f); Is(f) || columns != 0 || rows != 0 {
		t.Errorf("%s is a terminal of %d columns and %d rows", os.DevNull, columns, rows)
	}
}
