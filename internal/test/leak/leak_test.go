package leak

import (
	"os"
	"strings"
	"testing"
)

// blocked is a goroutine that can be found by its name.
func blocked(running chan<- struct{}, end <-chan struct{}) {
	running <- struct{}{}
	<-end
}

func TestGoroutines(t *testing.T) {
	running, end := make(chan struct{}), make(chan struct{})
	go blocked(running, end)
	<-running
	names := []string{"no such function", "leak.blocked+"}
	if stack := goroutine(names); !strings.Contains(stack, "leak.blocked+") {
		t.Errorf("found %q", stack)
	}
	if stack := goroutine(names[:1]); stack != "" {
		t.Errorf("found %q", stack)
	}
	close(end)
	if err := Goroutines(names...)(); err != nil {
		t.Error(err)
	}
	if err := Goroutines("leak.TestGoroutines+")(); err != nil {
		t.Errorf("it found its caller: %v", err)
	}
}

func TestFiles(t *testing.T) {
	check := Files()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("error is %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
}
