package process

import "syscall"

// diesWithParent makes the kernel kill the child when the thread that started it ends. In its own process group the
// child does not receive Ctrl-C of a terminal, so that the owner ends it.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
