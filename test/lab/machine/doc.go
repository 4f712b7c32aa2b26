// Package machine emulates bare-metal machines: each has power, a disk, a network card on the switch of the lab, a
// virtual medium and a console. It runs a real operating system from its disk, with systemd as the first process, in
// namespaces and control groups.
//
// Power behaves as on metal. A machine can be on without a system, if its disk has none. A hard power-off does not
// change the disk, and a power-on boots from it again. A machine that powers itself off is off, and one that reboots
// starts again. The network card loses its configuration, the disk does not.
//
// A process claims the name of a lab. When the process ends, its guard removes the lab from the kernel: processes,
// control groups, namespaces, interfaces. Files stay.
//
// The disk of a machine cannot be changed while a system runs from it.
//
// All machines share one kernel, with its time, modules and sysctls outside of net. A kubelet sets
// vm.overcommit_memory, kernel.panic and kernel.panic_on_oops of the computer. A lab raises a low
// fs.inotify.max_user_instances. These settings are not restored.
package machine
