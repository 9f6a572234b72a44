package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/gorxe/gorxe/internal/service/keeper"
)

// envChaos has the seed of `gorxe run` if the flag is missing.
const envChaos = "GORXE_CHAOS"

// chaosSeed is the value of --chaos; 0: there is none.
type chaosSeed uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *chaosSeed) UnmarshalText(text []byte) error {
	if string(text) == "random" {
		*s = chaosSeed(1 + rand.Uint32()) // short enough to type
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: give a number from 1 to 18446744073709551615, or random", text)
	}
	*s = chaosSeed(n)
	return nil
}

// seed returns the seed of the flag, or of the environment.
func (c *runCmd) seed() (seed chaosSeed, err error) {
	text := os.Getenv(envChaos)
	if c.Chaos != 0 || text == "" || keeper.Nested() { // the environment's is that of the outer run
		return c.Chaos, nil
	}
	if err := seed.UnmarshalText([]byte(text)); err != nil {
		return 0, usageError{fmt.Errorf("%s: %w", envChaos, err)}
	}
	return seed, nil
}
