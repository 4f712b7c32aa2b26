//go:build !race

package guard_test

// raced is true with the race detector. The guard is then built with it too.
const raced = false
