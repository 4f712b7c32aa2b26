// Package bmc serves the board controllers of a lab's machines, and the images of operating systems, on the lab's
// network.
//
// Each machine has a base address, http://172.22.0.1:8000/machines/NAME, with a user name and a password of its own:
//
//	GET    /power      {"power": "on"} or {"power": "off"}
//	PUT    /power      {"power": "on", "off", "soft-off", "reboot" or "soft-reboot"}; answers when the state is reached
//	PUT    /disk       {"image": "http://..."}; writes an image to the disk, which wipes it first
//	DELETE /disk       wipes the disk
//	PUT    /media      a config drive as Ironic holds it: an ISO 9660 image, compressed with gzip, in base64
//	DELETE /media      takes the config drive out
//	GET    /inventory  what an agent would report about the machine
//
// What changes a machine is done one after the other, and to its end even if nobody waits for the answer any more, as a
// real controller does. A system that does not shut down in time makes the answer 504, one that runs while its disk is
// to be written makes it 409. Everything that was asked for is kept in a journal. A controller can be made to
// misbehave, to see what others do about it.
//
// An image is a small file that names a root file system; it has a checksum beside it. The controller downloads it from
// wherever it is told to, as a machine's agent does, so that a missing image fails where it fails in reality.
//
// It refuses config drives without Rock Ridge names: the names in plain ISO 9660 are cut and mean nothing to
// cloud-init.
//
// The trade-off: this is a protocol of its own and not Redfish. Ironic needs a plugin to speak it, and in return no
// part of the lab pretends to be firmware.
package bmc
