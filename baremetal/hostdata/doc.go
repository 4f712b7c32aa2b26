// Package hostdata renders the meta-data and network-data of a machine from a Metal3DataTemplate, and decides which
// index the machine gets and which addresses it claims.
//
// The output is the one of CAPM3: the same keys, values and order of lists, after YAML normalisation. Three rules
// differ, because CAPM3 renders broken data there or fails: the DNS servers of a pool are rendered into the meta-data,
// pools are told apart by group, kind and name, and an address must be of the family of its network.
//
// An input that cannot be rendered is an error that names field, value and remedy. All such errors of a template are
// returned together. The package does not know Secrets: the caller renders once and keeps the result.
package hostdata
