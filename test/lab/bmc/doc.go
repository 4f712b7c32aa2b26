// Package bmc serves the BMCs of a lab's machines over Redfish, and the images of operating systems, on the lab's
// network.
//
// The BMC of a machine is a system and a manager with the name of the machine, below http://172.22.0.1:8000/redfish/v1,
// with its own user name and password. It has the resources that Ironic's redfish driver and its library require:
// sessions, power, boot source, a virtual CD drive, a network card, BIOS settings. It has no firmware updates, RAID and
// events. Port 8443 serves the same with TLS, and a certificate of an authority that no client has.
//
// A machine that is powered on boots from the CD if that is the boot source and a medium is inserted: the BMC then
// downloads the medium and passes its files to the ramdisk of the machine. Otherwise the machine boots from its disk.
// The type "Once" applies to one boot.
//
// Changes of a machine run one after the other and complete after the client has disconnected, as on a real BMC. Only a
// graceful shutdown is answered at once. A system that ignores it stays on until a forced command. A journal keeps all
// requests. SetFault causes faults.
//
// An image is a small file that names a root file system, with a checksum file. The agent of a machine downloads it, so
// a missing image fails at the same step as in reality.
//
// Sources: DMTF DSP0266 (Redfish), sushy 5.5, ironic 29 (drivers/modules/redfish).
package bmc
