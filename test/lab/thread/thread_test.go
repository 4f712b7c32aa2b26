//go:build linux

package thread_test

import (
	"sync"
	"syscall"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

func TestOwnThreadIsNeverTheFirst(t *testing.T) {
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			err := thread.Own(func() error {
				if syscall.Gettid() == syscall.Getpid() {
					t.Error("the mounts of this thread would be those of the process")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}
