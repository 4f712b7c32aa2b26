package image

import (
	"sync"
	"syscall"
	"testing"
)

func TestOwnThreadIsNeverTheFirst(t *testing.T) {
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			err := onOwnThread(func() error {
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
