// Package bmc serves the board controllers of a lab's machines over Redfish, and the images of operating systems, on
// the lab's network.
//
// The board controller of a machine is a system and a manager with the name of the machine, below
// http://172.22.0.1:8000/redfish/v1, with a user name and a password of its own. It has what Ironic's redfish driver
// and its library ask for: sessions, power, boot source, one virtual CD drive, one network card. BIOS settings,
// firmware updates, RAID and events are left out, and clients find no links to them. Port 8443 serves the same with
// TLS, and a certificate of an authority that no client has.
//
// A machine that is turned on boots from the CD if that is the boot source and something is inserted: the controller
// reads the medium in this moment, from wherever it is, and hands its files to the ramdisk of the machine. Else the
// machine boots from its disk. The type "Once" is used up by that.
//
// What changes a machine is done one after the other, and to its end even after the client has disconnected, as a
// real controller does. Only a graceful shutdown is answered at once, and a system that ignores it stays on until a
// forced command comes. Everything that was asked for is kept in a journal. A controller can be made to misbehave, to
// see what others do about it.
//
// An image is a small file that names a root file system; it has a checksum beside it. The agent of a machine downloads
// it, so that a missing image fails where it fails in reality.
//
// Sources: DMTF DSP0266 (Redfish), sushy 5.5, ironic 29 (drivers/modules/redfish).
package bmc
