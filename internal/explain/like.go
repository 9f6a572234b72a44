package explain

import "strings"

// Like returns the names of words that contain a name, or else those that differ from it in a letter or two.
func Like(name string) (contain []string) {
	name = strings.ToUpper(name)
	var near []string
	for _, w := range Words() {
		if len(name) > 2 && strings.Contains(w.Name, name) {
			contain = append(contain, w.Name)
		}
		for _, prefix := range prefixes {
			if rest, ok := strings.CutPrefix(w.Name, prefix); ok && distance(rest, name) <= min(2, len(rest)/3) {
				near = append(near, w.Name)
				break
			}
		}
	}
	if contain == nil {
		return near
	}
	return contain
}

// distance is how many letters have to be added, taken away or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}
