package lab

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread calls a function on a thread that ends with it, so that namespaces it enters are not left to others. The
// first thread of a process cannot end and is passed over.
func onOwnThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		// It is never unlocked: then the thread ends together with this function.
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			done <- onOwnThread(do)
			return
		}
		done <- do()
	}()
	return <-done
}
