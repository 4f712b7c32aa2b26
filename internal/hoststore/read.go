package hoststore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// Holdings are the hosts of one machine.
type Holdings struct {
	// Host is the host of the machine, nil if it has none. Read-only.
	Host *bmov1alpha1.BareMetalHost

	// Surplus are further hosts with the machine as consumer. A crash between two claims can leave them.
	Surplus []*bmov1alpha1.BareMetalHost
}

// Holdings returns the hosts with the machine as consumer. The hint is the recorded host of the machine: of several
// hosts, Holdings prefers this one. If the cache shows none, Holdings reads the recorded host live, because the cache
// of a new process may not show the last claim yet. It blocks on that read, and returns an error if it fails.
func (s *Store) Holdings(ctx context.Context, machine Key, hint string) (Holdings, error) {
	var list bmov1alpha1.BareMetalHostList
	if err := s.client.List(ctx, &list, client.InNamespace(machine.Namespace),
		client.MatchingFields{consumerIndex: machine.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return Holdings{}, fmt.Errorf("listing the BareMetalHosts of %s: %w", machine, err)
	}
	hosts := pointers(list.Items)
	if pending, err := s.pending(ctx, machine, hosts, hint); err != nil {
		return Holdings{}, err
	} else if pending != nil {
		hosts = append(hosts, pending)
	}
	if len(hosts) == 0 {
		return Holdings{}, nil
	}
	slices.SortFunc(hosts, func(a, b *bmov1alpha1.BareMetalHost) int {
		if (a.Name == hint) != (b.Name == hint) {
			if a.Name == hint {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return Holdings{Host: hosts[0], Surplus: hosts[1:]}, nil
}

// pending returns a host that the machine claimed and that the cache does not show: the assumed host, or else the
// recorded one. It reads the host live after a restart, and after a write without a response.
func (s *Store) pending(ctx context.Context, machine Key, known []*bmov1alpha1.BareMetalHost, hint string,
) (*bmov1alpha1.BareMetalHost, error) {
	s.mu.Lock()
	key, claim, assumed := s.assumed.of(machine)
	s.mu.Unlock()
	switch {
	case claim.written != nil && !contains(known, key.Name):
		return claim.written, nil
	case !assumed && len(known) == 0 && hint != "":
		key = Key{Namespace: machine.Namespace, Name: hint}
	case !assumed || contains(known, key.Name):
		return nil, nil
	}
	pending := &bmov1alpha1.BareMetalHost{}
	err := s.live.Get(ctx, key, pending)
	switch {
	case err == nil && host.ConsumedBy(pending, machine.Namespace, machine.Name):
		return pending, nil
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading BareMetalHost %s, which %s may have claimed: %w", key.Name, machine, err)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.abandonAll(machine)
		return nil, nil
	}
}

func contains(hosts []*bmov1alpha1.BareMetalHost, name string) bool {
	return slices.ContainsFunc(hosts, func(h *bmov1alpha1.BareMetalHost) bool { return h.Name == name })
}

// Hosts returns all hosts of a namespace from the cache. They are read-only.
func (s *Store) Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	var list bmov1alpha1.BareMetalHostList
	if err := s.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	return pointers(list.Items), nil
}

// Reserved returns the hosts of a namespace that node reuse reserves. It reads live: a deleted Cluster releases its
// reservations only once, and the cache may not show the last one yet.
func (s *Store) Reserved(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	var list bmov1alpha1.BareMetalHostList
	reserved := client.HasLabels{infrav1.NodeReuseLabel}
	if err := s.live.List(ctx, &list, client.InNamespace(namespace), reserved); err != nil {
		return nil, fmt.Errorf("listing reserved BareMetalHosts: %w", err)
	}
	return pointers(list.Items), nil
}

func pointers(items []bmov1alpha1.BareMetalHost) []*bmov1alpha1.BareMetalHost {
	hosts := make([]*bmov1alpha1.BareMetalHost, 0, len(items))
	for i := range items {
		hosts = append(hosts, &items[i])
	}
	return hosts
}
