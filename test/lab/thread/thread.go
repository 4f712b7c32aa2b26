//go:build linux

// Package thread runs code that changes the namespaces of its thread on a thread of its own.
package thread

import (
	"runtime"
	"syscall"
)

// Own runs work on a thread that runs no other goroutine and ends with work. It blocks until then.
func Own(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			// The first thread of a process does not end, and /proc shows its namespaces for the process. While this goroutine
			// locks it, the next goroutine runs on another thread.
			defer runtime.UnlockOSThread()
			result <- Own(work)
			return
		}
		// A thread that is never unlocked ends with its goroutine.
		result <- work()
	}()
	return <-result
}
