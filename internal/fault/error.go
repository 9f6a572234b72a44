package fault

import (
	"fmt"
	"strings"
)

// Error says why a rule is refused.
type Error struct {
	Rule string // as given
	Word string // the word at fault; it is in Rule, or empty
	At   int    // where Word is in Rule, in bytes
	Why  string
}

func (e *Error) Error() string {
	if e.Word == "" {
		return fmt.Sprintf("fault rule %q: %s", e.Rule, e.Why)
	}
	return fmt.Sprintf("fault rule %q: %q: %s", e.Rule, e.Word, e.Why)
}

// oneOf lists words for a message.
func oneOf(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}

// Nearest returns the word that is at most two letters away from what was given, or "". A short
// name with two other letters is another name.
func Nearest(given string, words []string) string {
	best, least := "", 3
	if len(given) < 4 {
		least = 2
	}
	for _, w := range words {
		if d := distance(strings.ToLower(given), strings.ToLower(w)); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
