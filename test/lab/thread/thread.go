//go:build linux

// Package thread runs code on a thread of its own, for what changes the namespaces of the thread that it runs on.
package thread

import (
	"runtime"
	"syscall"
)

// Own does some work on a thread that no other goroutine ever runs on and that ends with the work.
func Own(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// The first thread of a process would not end, and /proc shows it for the process. As long as it
			// is taken, the next goroutine gets another.
			defer runtime.UnlockOSThread()
			result <- Own(work)
			return
		}
		// Never unlocked: that is what makes the thread end with this goroutine.
		result <- work()
	}()
	return <-result
}
