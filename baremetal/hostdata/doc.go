// Package hostdata renders the meta-data and network-data of a machine from a Metal3DataTemplate, and decides the index
// of the machine and the addresses that it claims.
//
// The output is that of CAPM3: the same keys, values and order of lists, after YAML normalisation. It differs in three
// cases, in which CAPM3 fails or renders broken data: the meta-data has the DNS servers of a pool, group, kind and name
// identify a pool, and an address must be of the family of its network.
//
// An input that cannot be rendered is an error with field, value and remedy. The package returns all errors of a
// template together. It reads no Secrets: the caller renders once and stores the result.
package hostdata
