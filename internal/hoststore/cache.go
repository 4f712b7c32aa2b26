package hoststore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/wire"
)

const (
	// consumerIndex finds the hosts of a Metal3Machine by its name.
	consumerIndex = "metal3machine"

	// RecordedHostIndex finds Metal3Machines by the name of their recorded host.
	RecordedHostIndex = "recorded-host"

	// enqueueBuffer is the capacity of the channel of enqueued machines.
	enqueueBuffer = 1024
)

// SetupIndexes registers the index of hosts by consumer, and RecordedHostIndex.
func SetupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &bmov1alpha1.BareMetalHost{}, consumerIndex, byConsumer),
		indexer.IndexField(ctx, &infrav1.Metal3Machine{}, RecordedHostIndex, ByRecordedHost),
	)
}

// ByRecordedHost returns the values of RecordedHostIndex for a Metal3Machine.
func ByRecordedHost(object client.Object) []string {
	machine, isMachine := object.(*infrav1.Metal3Machine)
	if !isMachine {
		return nil
	}
	if name := host.Recorded(machine); name != "" {
		return []string{name}
	}
	return nil
}

func byConsumer(object client.Object) []string {
	current, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		return nil
	}
	if machine, found := host.Consumer(current); found {
		return []string{machine}
	}
	return nil
}

// Watch subscribes the store to the hosts of a cache. The returned channel delivers the machines to reconcile.
func (s *Store) Watch(ctx context.Context, informers cache.Informers) (<-chan event.GenericEvent, error) {
	enqueued := make(chan event.GenericEvent, enqueueBuffer)
	s.enqueue = func(machine Key) {
		object := &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}}
		select {
		case enqueued <- event.GenericEvent{Object: object}:
		case <-ctx.Done():
		}
	}
	informer, err := informers.GetInformer(ctx, &bmov1alpha1.BareMetalHost{})
	if err != nil {
		return nil, fmt.Errorf("watching BareMetalHosts: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(current any) { s.handle(nil, current) },
		UpdateFunc: s.handle,
		DeleteFunc: s.handleDelete,
	})
	if err != nil {
		return nil, fmt.Errorf("watching BareMetalHosts: %w", err)
	}
	s.poolComplete = registration.HasSynced
	return enqueued, nil
}

func (s *Store) handle(before, after any) {
	// Nil for a new host.
	previous, _ := before.(*bmov1alpha1.BareMetalHost)
	if current, isHost := after.(*bmov1alpha1.BareMetalHost); isHost {
		s.observe(previous, current)
	}
}

func (s *Store) handleDelete(object any) {
	if tombstone, isTombstone := object.(toolscache.DeletedFinalStateUnknown); isTombstone {
		object = tombstone.Obj
	}
	if gone, isHost := object.(*bmov1alpha1.BareMetalHost); isHost {
		s.deleted(gone)
	}
}

// Unread returns the large members of a host in JSON that Slim removes. A watch does not decode them.
func Unread() wire.Tree {
	return wire.Tree{
		"metadata": {"managedFields": nil},
		"status": {
			"conditions": nil, "goodCredentials": nil, "triedCredentials": nil,
			"hardware": {
				"firmware": nil, "storage": nil, "systemVendor": nil,
				"cpu":  {"clockMegahertz": nil, "flags": nil, "model": nil},
				"nics": {"lldp": nil, "model": nil, "pciAddress": nil, "pxe": nil, "speedGbps": nil, "vlanId": nil, "vlans": nil},
			},
		},
	}
}

// Slim removes the unused fields of a cached host to save memory: disks, firmware, processor flags, managedFields, and
// the operation history without provisioning and the start of deprovisioning.
func Slim(object any) (any, error) {
	current, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		return object, nil
	}
	current.ManagedFields = nil
	current.Status.OperationHistory = bmov1alpha1.OperationHistory{
		Provision:   current.Status.OperationHistory.Provision,
		Deprovision: bmov1alpha1.OperationMetric{Start: current.Status.OperationHistory.Deprovision.Start},
	}
	current.Status.Conditions = nil
	current.Status.GoodCredentials = bmov1alpha1.CredentialsStatus{}
	current.Status.TriedCredentials = bmov1alpha1.CredentialsStatus{}
	if details := current.Status.HardwareDetails; details != nil {
		current.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{
			Hostname:     details.Hostname,
			RAMMebibytes: details.RAMMebibytes,
			CPU:          bmov1alpha1.CPU{Arch: details.CPU.Arch, Count: details.CPU.Count},
			NIC:          slimNICs(details.NIC),
		}
	}
	return current, nil
}

func slimNICs(nics []bmov1alpha1.NIC) []bmov1alpha1.NIC {
	slim := make([]bmov1alpha1.NIC, 0, len(nics))
	for _, nic := range nics {
		slim = append(slim, bmov1alpha1.NIC{Name: nic.Name, MAC: nic.MAC, IP: nic.IP})
	}
	return slim
}

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
	hosts, err := hostsOf(ctx, s.client, client.InNamespace(machine.Namespace),
		client.MatchingFields{consumerIndex: machine.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return Holdings{}, err
	}
	if pending, err := s.pending(ctx, machine, hosts, hint); err != nil {
		return Holdings{}, err
	} else if pending != nil {
		hosts = append(hosts, pending)
	}
	if len(hosts) == 0 {
		return Holdings{}, nil
	}
	slices.SortFunc(hosts, func(a, b *bmov1alpha1.BareMetalHost) int { return strings.Compare(a.Name, b.Name) })
	if hinted := slices.IndexFunc(hosts, func(h *bmov1alpha1.BareMetalHost) bool { return h.Name == hint }); hinted > 0 {
		hosts = slices.Concat(hosts[hinted:hinted+1], hosts[:hinted], hosts[hinted+1:])
	}
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
	return hostsOf(ctx, s.client, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
}

// LiveHosts returns all hosts of a namespace from the API server. A deleted Cluster releases its reservations only
// once, and the cache may not show the last one yet.
func (s *Store) LiveHosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	return hostsOf(ctx, s.live, client.InNamespace(namespace))
}

func hostsOf(ctx context.Context, reader client.Reader, options ...client.ListOption,
) ([]*bmov1alpha1.BareMetalHost, error) {
	var list bmov1alpha1.BareMetalHostList
	if err := reader.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	hosts := make([]*bmov1alpha1.BareMetalHost, 0, len(list.Items))
	for i := range list.Items {
		hosts = append(hosts, &list.Items[i])
	}
	return hosts, nil
}
