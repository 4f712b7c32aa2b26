//go:build !linux

package plugin_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
)

// openTerminal skips the spec.
func openTerminal() (person, program *os.File) {
	Skip("the tests open terminals on Linux only")
	return nil, nil
}
