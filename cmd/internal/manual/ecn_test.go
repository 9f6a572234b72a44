package manual

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

// The topic names all parameters, with their defaults.
func TestECNTopic(t *testing.T) {
	text := FindTopic("ecn").Text
	e := rxe.DefaultECN()
	for _, p := range e.Params() {
		if want := fmt.Sprintf("  %-21s %d", p.Name, *p.Value); !strings.Contains(text, want) {
			t.Errorf("the topic lacks %q", want)
		}
	}
}
