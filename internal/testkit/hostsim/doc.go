// Package hostsim plays BMO: it moves BareMetalHosts through their states as the real operator would,
// without Ironic and without hardware. The suites of controllers, the integration suite and the benchmarks run on it.
//
//	(new) ─► registering ─► inspecting ─► preparing ─► available ─► provisioning ─► provisioned
//	                                                       ▲                            │ image cleared
//	                                                       └────── deprovisioning ◄─────┘
//
// Each arrow is a write of the status, made after a delay that the caller sets. Power and the first operational status
// are writes of their own, as those of BMO. A story of test/move compares what is seen of a host with BMO.
//
// Everything is driven by a watch; a thousand idle hosts cost nothing. The decision is a pure function (next) of what
// can be observed: a simulator that is started anew goes on where the old one stopped.
//
// It imitates what the provider relies on: pausing, the status annotation of a move, detaching, power that follows
// spec.online, reboots by annotation, deletion by finalizer. It refuses to imitate the rest: no credentials, no RAID,
// no firmware, no HardwareData. An error in the status, set by a test, stops the host until the test removes it or the
// host is released.
package hostsim
