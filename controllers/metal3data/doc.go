// Package metal3data reconciles Metal3Data: it claims the addresses of the template, renders meta-data and network-data
// into Secrets, and releases the addresses at the deletion.
//
// Rendered data is immutable: the controller never updates an existing Secret, including one of CAPM3. It renders a
// missing Secret again from the same addresses.
//
// Addresses come from two APIs: that of Metal3 and the IPAM contract of Cluster API. Either may be installed after the
// manager starts. The watch of an API starts with the first Metal3Data whose template refers to one of its pools.
package metal3data
