//go:build !linux

package process

import "syscall"

// diesWithParent leaves the child in the process group of its owner, because other kernels cannot kill a child with
// its parent.
func diesWithParent() *syscall.SysProcAttr { return nil }
