// Package seed has the seed of random tests. It is fixed, so that the same commit passes or fails each time. The
// nightly tests choose another one.
package seed

import (
	"fmt"
	"os"
	"strconv"
)

// Variable is the environment variable that chooses a seed.
const Variable = "TEST_SEED"

// fixed is the default seed.
const fixed = 1

// Chosen returns the seed of this run. A random test prints it, so that a failure can be repeated. Chosen panics if
// the variable is not a number.
func Chosen() uint64 {
	text := os.Getenv(Variable)
	if text == "" {
		return fixed
	}
	chosen, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s is %q: set it to a number without a sign", Variable, text))
	}
	return chosen
}
