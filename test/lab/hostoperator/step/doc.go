// Package step decides what the stand-in for the Baremetal Operator does next with one host. It does nothing itself: no
// client, no clock, no environment. What is known goes in as Seen, what is to be done comes out as a Step, and after
// every step all is observed again.
//
// The states and their order are those of the Baremetal Operator, and so is its law: a host is registered again in
// every state but the first and the last, so that an Ironic with an empty database gets all hosts back, and those that
// run an image are adopted without a word about their power.
//
//	(none) ─► registering ─► inspecting ─► preparing ─► available ─► provisioning ─► provisioned
//	  │            │                                     ▲     ▲                        │
//	  ▼            ▼                                     │     └──── deprovisioning ◄───┘
//	unmanaged   externally provisioned ──────────────────┘                 │
//	                                                                       ▼
//	                             deleting ◄──────────────── powering off before delete
//
// It refuses what labs do not need: RAID, firmware, root device hints, hardware profiles, live ISO images, registries
// with credentials, pre-provisioning images, servicing, and forced reboots of a ramdisk. An image that needs one of
// them is reported as a provisioning error; the rest is ignored.
package step
