package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// states reads the looks that daemons have recorded (GORXE_LOOKS), and returns which part of them
// found each state.
func states(stem string) (map[string]float64, error) {
	files, err := filepath.Glob(stem + ".*")
	if err != nil {
		return nil, err
	}
	counts, all := make(map[string]float64), 0.0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var look struct{ State string }
			if json.Unmarshal(lines.Bytes(), &look) != nil {
				continue // the last line of a daemon that was killed
			}
			counts[look.State]++
			all++
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for state := range counts {
		counts[state] /= all
	}
	return counts, nil
}

// shares prints parts, the largest first.
func shares(states map[string]float64) string {
	var names, list []string
	for name := range states {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if states[a] != states[b] {
			return int(1e6 * (states[b] - states[a]))
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if part := 100 * states[name]; part >= 1 {
			list = append(list, fmt.Sprintf("%s %.0f %%", name, part))
		}
	}
	return strings.Join(list, ", ")
}
