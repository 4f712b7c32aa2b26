package hoststore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// ErrConflict is returned by Write when somebody else changed the host since it was read.
var ErrConflict = errors.New("the host was changed by somebody else")

// Key names an object.
type Key = types.NamespacedName

// Store reads and writes hosts.
type Store struct {
	client client.Client
	// live reads past the cache.
	live client.Reader

	mu sync.Mutex
	// pool holds the hosts that no machine holds, by namespace, as the cache showed them.
	pool map[string]map[Key]*bmov1alpha1.BareMetalHost
	// assumed says which machine is claiming a host. The entry goes when the cache shows the claim.
	assumed map[Key]Key
	// stored are the claims that were written and that the cache does not show yet.
	stored map[Key]*bmov1alpha1.BareMetalHost
	// outdated are resource versions that a write was refused for. A cached host of that version is not chosen.
	outdated map[Key]string
	queue    queue
	wake     func(machine Key)
	// poolComplete says whether the pool holds all hosts that were there when the process started.
	poolComplete func() bool
}

// New returns a store that reads through the client's cache. Live reads past it, for the moments when the cache is
// known to lag.
func New(c client.Client, live client.Reader) *Store {
	return &Store{
		client:   c,
		live:     live,
		pool:     map[string]map[Key]*bmov1alpha1.BareMetalHost{},
		assumed:  map[Key]Key{},
		stored:   map[Key]*bmov1alpha1.BareMetalHost{},
		outdated: map[Key]string{},
		queue:    newQueue(),
		wake:     func(Key) {},

		poolComplete: func() bool { return false },
	}
}

// Holdings are the hosts of one machine.
type Holdings struct {
	// Host is the host that the machine works with. Nil means that it holds none. It must not be changed.
	Host *bmov1alpha1.BareMetalHost

	// Surplus are further hosts that carry the machine as consumer, which a crash between two claims can leave behind.
	Surplus []*bmov1alpha1.BareMetalHost
}

// Holdings returns the hosts that carry the machine as consumer. The hint is the name that the machine has recorded; it
// decides which host counts when there are several. When the cache shows none, the recorded one is read live: a process
// that has just started may not see yet what the one before it has claimed.
func (s *Store) Holdings(ctx context.Context, machine Key, hint string) (Holdings, error) {
	var list bmov1alpha1.BareMetalHostList
	if err := s.client.List(ctx, &list, client.InNamespace(machine.Namespace),
		client.MatchingFields{consumerIndex: machine.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return Holdings{}, fmt.Errorf("listing the hosts of %s: %w", machine, err)
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

// pending returns the host that the machine may have claimed although the cache does not show it: the one that it has
// assumed, or else the one that it has recorded. After a write that failed without an answer, and after a restart, only
// the API server knows whether the claim took effect, so then the host is read live.
func (s *Store) pending(ctx context.Context, machine Key, known []*bmov1alpha1.BareMetalHost, hint string,
) (*bmov1alpha1.BareMetalHost, error) {
	key, written, assumed := s.assumedBy(machine)
	switch {
	case written != nil && !contains(known, key.Name):
		return written, nil
	case !assumed && len(known) == 0 && hint != "":
		key = Key{Namespace: machine.Namespace, Name: hint}
	case !assumed || contains(known, key.Name):
		return nil, nil
	}
	pending := &bmov1alpha1.BareMetalHost{}
	err := s.live.Get(ctx, key, pending)
	switch {
	case apierrors.IsNotFound(err):
		s.Forget(machine)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading host %s, which %s may have claimed: %w", key.Name, machine, err)
	case !host.ConsumedBy(pending, machine.Namespace, machine.Name):
		s.Forget(machine)
		return nil, nil
	default:
		return pending, nil
	}
}

func contains(hosts []*bmov1alpha1.BareMetalHost, name string) bool {
	return slices.ContainsFunc(hosts, func(h *bmov1alpha1.BareMetalHost) bool { return h.Name == name })
}

// Choose picks a host for a machine and assumes it. When there is none, the machine is remembered and woken as soon
// as a host that it could take becomes free.
func (s *Store) Choose(ctx context.Context, wanted host.Wanted) (host.Choice, error) {
	machine := Key{Namespace: wanted.Namespace, Name: wanted.Machine}
	// Before reading: a host that becomes free after the read finds the machine in the queue.
	s.enter(machine, wanted)
	if s.poolComplete() {
		if choice := s.chooseFree(wanted); choice.Host != nil {
			return choice, nil
		}
	}
	// Nobody reads counts of hosts unless there is none to take, so otherwise only then all of them are looked at.
	hosts, err := s.Hosts(ctx, wanted.Namespace)
	if err != nil {
		return host.Choice{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assume(wanted, hosts), nil
}

// chooseFree chooses from the pool. A list from the cache would copy all hosts for every claim, and a thousand of them
// are more than a megabyte.
func (s *Store) chooseFree(wanted host.Wanted) host.Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assume(wanted, slices.Collect(maps.Values(s.pool[wanted.Namespace])))
}

// assume chooses one of the hosts and remembers for whom. The caller holds the lock.
func (s *Store) assume(wanted host.Wanted, hosts []*bmov1alpha1.BareMetalHost) host.Choice {
	machine := Key{Namespace: wanted.Namespace, Name: wanted.Machine}
	choice := host.Choose(s.candidates(hosts, machine), wanted)
	if choice.Host != nil {
		s.assumed[client.ObjectKeyFromObject(choice.Host)] = machine
		s.queue.remove(machine)
	}
	return choice
}

// candidates pairs the hosts with what only this process knows. The caller holds the lock.
func (s *Store) candidates(hosts []*bmov1alpha1.BareMetalHost, machine Key) []host.Candidate {
	candidates := make([]host.Candidate, 0, len(hosts))
	for _, current := range hosts {
		candidates = append(candidates, s.candidate(current, machine))
	}
	return candidates
}

func (s *Store) candidate(h *bmov1alpha1.BareMetalHost, machine Key) host.Candidate {
	key := client.ObjectKeyFromObject(h)
	by, assumed := s.assumed[key]
	outdated := s.outdated[key] == h.ResourceVersion && h.ResourceVersion != ""
	return host.Candidate{Host: h, Assumed: (assumed && by != machine) || outdated}
}

// Write stores the desired host if nobody changed it since the current one was read, and returns what was stored. It
// writes nothing when both are equal. ErrConflict means that somebody was faster.
func (s *Store) Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	// Most writes find everything as it should be, and comparing costs less than a patch.
	if equality.Semantic.DeepEqual(current, desired) {
		return current, nil
	}
	changes, err := client.MergeFrom(current).Data(desired)
	if err != nil {
		return nil, fmt.Errorf("comparing host %s: %w", current.Name, err)
	}
	if string(changes) == "{}" {
		return current, nil
	}
	version := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, current.ResourceVersion)
	patch, err := jsonpatch.MergeMergePatches(changes, version)
	if err != nil {
		return nil, fmt.Errorf("comparing host %s: %w", current.Name, err)
	}
	stored := desired.DeepCopy()
	err = s.client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err):
		s.refused(current, desired)
		conflicts.Inc()
		return nil, fmt.Errorf("writing host %s: %w", current.Name, ErrConflict)
	case err != nil:
		return nil, fmt.Errorf("writing host %s: %w", current.Name, err)
	}
	s.wrote(stored)
	return stored, nil
}

// refused keeps the host from being chosen again from the same outdated copy, and gives up the claim that was refused.
// A refused write on a host that was claimed before says nothing about the claim: only what was stored is outdated.
func (s *Store) refused(current, desired *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(current)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outdated[key] = current.ResourceVersion
	by, assumed := s.assumed[key]
	switch {
	case !assumed:
	case host.ConsumedBy(current, by.Namespace, by.Name):
		delete(s.stored, key)
	case host.ConsumedBy(desired, by.Namespace, by.Name):
		s.giveUp(key)
	}
}

// Forget drops what a machine has assumed, for a machine that no longer wants a host. Settle has to follow: it offers
// the host to the machines that have waited meanwhile.
func (s *Store) Forget(machine Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, by := range s.assumed {
		if by == machine {
			s.giveUp(key)
		}
	}
}

// giveUp ends an assumption that led to no claim. Nothing happens to the host then, so no event will announce that it
// is free: it counts as offered to the machine until that settles. The caller holds the lock.
func (s *Store) giveUp(key Key) {
	machine := s.assumed[key]
	s.drop(key)
	s.queue.turn++
	if made, offered := s.queue.offers[key]; offered {
		machine = made.machine
	}
	s.queue.offers[key] = offer{machine: machine, turn: s.queue.turn}
}

// drop ends an assumption. The caller holds the lock.
func (s *Store) drop(key Key) {
	delete(s.assumed, key)
	delete(s.stored, key)
}

func (s *Store) assumedBy(machine Key) (key Key, written *bmov1alpha1.BareMetalHost, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, by := range s.assumed {
		if by == machine {
			return key, s.stored[key], true
		}
	}
	return Key{}, nil, false
}

// wrote remembers a claim that the API server confirmed, until the cache shows it.
func (s *Store) wrote(stored *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if by, assumed := s.assumed[key]; assumed && host.ConsumedBy(stored, by.Namespace, by.Name) {
		s.stored[key] = stored
	}
}

// Hosts returns all hosts of a namespace. They must not be changed.
func (s *Store) Hosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	var list bmov1alpha1.BareMetalHostList
	if err := s.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	return pointers(list.Items), nil
}

// Reserved returns the hosts of a namespace that node reuse keeps for the next machine of an owner. It reads past the
// cache: whoever ends the reservations of a Cluster does not come back for one that the cache shows too late.
func (s *Store) Reserved(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	var list bmov1alpha1.BareMetalHostList
	reserved := client.HasLabels{infrav1.NodeReuseLabel}
	if err := s.live.List(ctx, &list, client.InNamespace(namespace), reserved); err != nil {
		return nil, fmt.Errorf("listing reserved hosts: %w", err)
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
