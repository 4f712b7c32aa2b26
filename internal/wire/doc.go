// Package wire removes members that the manager does not read from JSON, before it is decoded. A decoder reads each
// text several times, and most of an object is metadata.managedFields and, of a BareMetalHost, the inventory of its
// hardware.
package wire
