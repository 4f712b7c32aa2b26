// Package seed says where random tests begin. A change has to pass the same tests each time that it is checked, so the
// seed is fixed; the nightly tests choose another one each night.
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

// Chosen returns the seed of this run. A random test prints it, so that a failure can be repeated. Chosen panics where
// the variable holds no number: a run with another seed than the chosen one would show nothing.
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
