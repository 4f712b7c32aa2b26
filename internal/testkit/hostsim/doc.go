// Package hostsim simulates BMO: it moves BareMetalHosts through their states without Ironic and hardware. The
// benchmarks and the suites of controllers use it. The stories of these suites also run with BMO, at night.
//
//	(new) ─► registering ─► inspecting ─► preparing ─► available ─► provisioning ─► provisioned
//	                                                       ▲                            │ image cleared
//	                                                       └────── deprovisioning ◄─────┘
//
// Each arrow is a write of the status, after a delay that the caller sets. Power and the first operational status are
// separate writes, as in BMO. A story of test/move compares the simulator with BMO.
//
// A watch drives the simulator, so idle hosts cost nothing. The decision is a pure function (next) of the observed
// host, so a restarted simulator continues.
//
// The simulator implements the behaviour that the provider depends on: pausing, the status annotation of a move,
// detaching, power that follows spec.online, reboots by annotation, deletion by finalizer. It has no credentials, no
// RAID, no firmware, no HardwareData. If a test sets an error in the status, the host stays in its state until the test
// removes the error or the host is released.
package hostsim
