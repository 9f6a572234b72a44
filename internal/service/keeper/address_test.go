package keeper

import (
	"slices"
	"testing"
)

// TestFillIn: the address takes the place of a whole word, and of one with an option's name or a
// port. What may be a piece of code stays.
func TestFillIn(t *testing.T) {
	given := []string{"rping", "{address}", "--host={address}", "{address}:4791", "--at={address}:7", "f'{address}'", "x{address}", "{address}x", "a=b={address}"}
	want := []string{"rping", "127.0.0.9", "--host=127.0.0.9", "127.0.0.9:4791", "--at=127.0.0.9:7", "f'{address}'", "x{address}", "{address}x", "a=b={address}"}
	if got := FillIn(given, "127.0.0.9"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := FillIn(given, ""); !slices.Equal(got, given) {
		t.Errorf("without an address: %q", got)
	}
}
