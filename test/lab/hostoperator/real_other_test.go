//go:build !linux

package hostoperator_test

import . "github.com/onsi/ginkgo/v2"

// realBackend stands for a real Ironic, which runs on Linux only.
type realBackend struct{ fakeBackend }

func newRealBackend() *realBackend { return &realBackend{} }

func (b *realBackend) start() { Skip("a real Ironic needs Linux") }
