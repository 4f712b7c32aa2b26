//go:build !linux

package move_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

// newRealIronic stands for a real Ironic, which runs on Linux only.
func newRealIronic(context.Context) measuredIronic {
	GinkgoHelper()
	Skip("a real Ironic needs Linux")
	return nil
}
