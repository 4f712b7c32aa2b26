package hostdata

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Group and kind of the pools of the Metal3 IP address manager.
const (
	Metal3PoolGroup = "ipam.metal3.io"
	Metal3PoolKind  = "IPPool"
)

// Pool identifies a pool of addresses in the namespace of the machine.
type Pool struct{ Group, Kind, Name string }

// IsMetal3 returns true for a pool of the Metal3 IP address manager. All other pools follow the IPAM contract of
// Cluster API.
func (p Pool) IsMetal3() bool { return p.Group == Metal3PoolGroup && p.Kind == Metal3PoolKind }

// String returns kind and name.
func (p Pool) String() string { return p.Kind + " " + p.Name }

// Use is a pool with the first field that names it.
type Use struct {
	Pool
	Field *field.Path
}

func metal3Pool(name string) Pool { return newPool("", "", name) }

// newPool returns a pool. An empty group or kind means that of Metal3.
func newPool(group, kind, name string) Pool {
	return Pool{Group: cmp.Or(group, Metal3PoolGroup), Kind: cmp.Or(kind, Metal3PoolKind), Name: name}
}

// Address is an address that a pool allocated to the machine, with the settings of its network.
type Address struct {
	Address string

	// Prefix is the length of the network prefix. Nil if the pool has none.
	Prefix *int32

	// Gateway of the network. Empty if the pool has none.
	Gateway string

	// DNSServers of the network. Only pools of Metal3 have them.
	DNSServers []string
}

// Pools returns the pools that a template names, each once, sorted by group, kind and name. It returns an error for a
// missing annotation.
func Pools(template *infrav1.Metal3DataTemplateSpec, subject Subject) ([]Use, error) {
	found := &survey{subject: subject, uses: map[Pool]*field.Path{}}
	spec := field.NewPath("spec")
	if template.MetaData != nil {
		found.metaData(spec.Child("metaData"), template.MetaData)
	}
	if template.NetworkData != nil {
		found.networkData(spec.Child("networkData"), template.NetworkData)
	}
	return found.sorted(), found.problems.ToAggregate()
}

// survey collects the pools of a template.
type survey struct {
	subject  Subject
	uses     map[Pool]*field.Path
	problems field.ErrorList
}

func (s *survey) sorted() []Use {
	uses := make([]Use, 0, len(s.uses))
	for pool, path := range s.uses {
		uses = append(uses, Use{Pool: pool, Field: path})
	}
	slices.SortFunc(uses, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return uses
}

func (s *survey) add(path *field.Path, pool Pool) {
	if _, known := s.uses[pool]; !known {
		s.uses[pool] = path
	}
}

func (s *survey) metaData(path *field.Path, data *infrav1.MetaData) {
	for _, list := range []struct {
		name    string
		entries []infrav1.FromPool
	}{
		{"ipAddressesFromPool", data.IPAddressesFromPool},
		{"prefixesFromPool", data.PrefixesFromPool},
		{"gatewaysFromPool", data.GatewaysFromPool},
		{"dnsServersFromPool", data.DNSServersFromPool},
	} {
		for _, entry := range list.entries {
			s.add(path.Child(list.name).Key(entry.Key), newPool(entry.APIGroup, entry.Kind, entry.Name))
		}
	}
}

func (s *survey) networkData(path *field.Path, data *infrav1.NetworkData) {
	networks := path.Child("networks")
	s.static(networks.Child("ipv4"), data.Networks.IPv4)
	s.static(networks.Child("ipv6"), data.Networks.IPv6)
	s.dynamic(networks.Child("ipv4DHCP"), data.Networks.IPv4DHCP)
	s.dynamic(networks.Child("ipv6DHCP"), data.Networks.IPv6DHCP)
	s.dynamic(networks.Child("ipv6SLAAC"), data.Networks.IPv6SLAAC)
	s.services(path.Child("services"), data.Services)
}

func (s *survey) static(path *field.Path, networks []infrav1.StaticNetwork) {
	for i := range networks {
		network, at := &networks[i], path.Key(networks[i].ID)
		s.source(at, addressSource(network))
		s.routes(at.Child("routes"), network.Routes)
	}
}

func (s *survey) dynamic(path *field.Path, networks []infrav1.DynamicNetwork) {
	for i := range networks {
		s.routes(path.Key(networks[i].ID).Child("routes"), networks[i].Routes)
	}
}

func (s *survey) routes(path *field.Path, routes []infrav1.NetworkRoute) {
	for i := range routes {
		at := path.Index(i)
		if routes[i].Gateway.String == "" {
			s.source(at.Child("gateway"), gatewaySource(&routes[i].Gateway))
		}
		s.services(at.Child("services"), routes[i].Services)
	}
}

func (s *survey) services(path *field.Path, services infrav1.NetworkServices) {
	if services.DNSFromIPPool != "" {
		s.add(path.Child("dnsFromIPPool"), metal3Pool(services.DNSFromIPPool))
	}
}

func (s *survey) source(path *field.Path, from source) {
	pool, at, err := from.pool(path, s.subject)
	switch {
	case err != nil:
		s.problems = append(s.problems, err)
	case pool != nil:
		s.add(at, *pool)
	}
}

// source names a pool in one of three ways: an annotation has precedence over a reference, and a reference over a name.
type source struct {
	annotation *infrav1.AnnotationSource
	reference  *infrav1.PoolRef
	name       string

	// nameField is the name of the field that holds the name.
	nameField string
}

func addressSource(network *infrav1.StaticNetwork) source {
	return source{network.FromPoolAnnotation, network.FromPoolRef, network.IPAddressFromIPPool, "ipAddressFromIPPool"}
}

func gatewaySource(gateway *infrav1.NetworkGateway) source {
	return source{gateway.FromPoolAnnotation, gateway.FromPoolRef, gateway.FromIPPool, "fromIPPool"}
}

// pool returns the pool and the field that names it. Nil if no field does.
func (f source) pool(path *field.Path, subject Subject) (*Pool, *field.Path, *field.Error) {
	var pool Pool
	switch {
	case f.annotation != nil && f.annotation.Object != "":
		at := path.Child("fromPoolAnnotation")
		name, err := subject.annotated(at, f.annotation)
		if err != nil {
			return nil, at, err
		}
		pool, path = metal3Pool(name), at
	case f.reference != nil && f.reference.Name != "":
		pool, path = newPool(f.reference.APIGroup, f.reference.Kind, f.reference.Name), path.Child("fromPoolRef")
	case f.name != "":
		pool, path = metal3Pool(f.name), path.Child(f.nameField)
	default:
		return nil, path, nil
	}
	return &pool, path, nil
}
