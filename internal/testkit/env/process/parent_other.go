//go:build !linux

package process

import "syscall"

// diesWithParent leaves the child in the process group of its owner: without the help of a Linux kernel, that is the
// best chance that both die together.
func diesWithParent() *syscall.SysProcAttr { return nil }
