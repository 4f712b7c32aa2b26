package process

import "syscall"

// diesWithParent makes the kernel kill the child as soon as the thread that started it ends. The process group of its
// own keeps Ctrl-C in a terminal away from it, so that the owner decides about its end.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
