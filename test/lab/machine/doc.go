// Package machine emulates bare-metal machines: each has power, a disk, a network card on the lab's switch, a virtual
// medium and a console, and runs a real operating system from its disk, with systemd as the first process, until
// its power is turned off. What runs on it cannot tell that it has namespaces and control groups instead of a board of
// its own.
//
// Power is what it is on metal. A machine can be on without anything running on it, when its disk holds no system; a
// hard power-off leaves the disk as it is, and a power-on boots from it again; a machine that turns itself off is off,
// and one that reboots comes back. The network card forgets its configuration, the disk does not.
//
// A lab's name is claimed for a process. When that process ends, in whichever way, a guard that it started removes
// everything that the lab had in the kernel: processes, control groups, namespaces, interfaces. Files stay.
//
// It refuses to touch the disk of a machine while a system runs from it.
//
// The trade-off: all machines share one kernel, with its time, its modules and its sysctls outside of net. A kubelet
// sets vm.overcommit_memory, kernel.panic and kernel.panic_on_oops for the whole computer; starting a lab raises
// fs.inotify.max_user_instances where it is low. Nothing sets these back.
package machine
