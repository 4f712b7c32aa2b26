// Package endpoint creates the container images for the pods of the Ironic endpoint in a lab: those that this provider
// renders for control-plane nodes and those of config/ironic. Only the names of the images are changed.
//
//	IronicImage      Debian's Ironic, Apache httpd and dnsmasq
//	GuardImage       the guard of this checkout with Debian's keepalived
//	DownloaderImage  a downloader with a ramdisk to download
//
// The first and the last image have the scripts and templates of the checkouts that IRONIC_IMAGE_SOURCE and
// IPA_DOWNLOADER name. Without these variables, they have entry points of the lab: one program, cmd/entry, under the
// names of the upstream scripts. It reads the same variables and files, writes the configuration and executes the real
// program. See package entry.
//
// The cache keeps programs in folders named lab-endpoint-KEY, which may be removed while no image is being packed.
//
// It is for labs and nothing else. The entry points leave out what these pods do not use: waiting for an address,
// MariaDB, JSON-RPC, the exporter, iPXE with TLS, drivers for real hardware. A variable that asks for one of these is
// an error, not ignored.
package endpoint
