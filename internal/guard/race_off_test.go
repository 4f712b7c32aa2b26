//go:build !race

package guard_test

// raced says that the race detector is on: then the guard is built with it as well.
const raced = false
