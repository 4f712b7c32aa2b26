package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/configdrive"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

const (
	// Namespace is the namespace of the hosts of a lab and their clusters.
	Namespace = build.DefaultNamespace

	// firstHost is the number of the first host in the address plan.
	firstHost = 20

	// bmcUser is the user of every BMC. Passwords differ.
	bmcUser = "operator"

	// hostsLimit is the time limit until hosts are available: they are registered, inspected and prepared.
	hostsLimit = 5 * time.Minute
)

// host is a bare-metal machine with its credentials.
type host struct {
	name     string
	number   byte
	password string
}

// newHost returns the host with an index that starts at zero.
func newHost(index int) host {
	number := byte(firstHost + index) //nolint:gosec // At most MaxHosts.
	return host{name: fmt.Sprintf("host-%d", index), number: number, password: rand.Text()}
}

// objects returns the objects of a host, in the order of their creation.
func (h host) objects() ([]client.Object, error) {
	card, err := configdrive.NetworkData(h.number)
	if err != nil {
		return nil, err
	}
	credentials, addresses := h.name+"-bmc", h.name+"-network"
	address, system := bmc.RedfishAddress(h.name)
	return []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: credentials},
			Data:       map[string][]byte{"username": []byte(bmcUser), "password": []byte(h.password)},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: addresses},
			Data:       map[string][]byte{"networkData": card},
		},
		&bmov1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: h.name},
			Spec: bmov1alpha1.BareMetalHostSpec{
				BMC: bmov1alpha1.BMCDetails{
					Address:         "redfish-virtualmedia+" + address + system,
					CredentialsName: credentials,
				},
				BootMACAddress:                 network.HardwareAddress(h.number).String(),
				Online:                         true,
				PreprovisioningNetworkDataName: addresses,
			},
		},
	}, nil
}

// AddHosts adds machines to the lab and hosts for them to the management cluster, and blocks until they are available.
// Their names are host-0, host-1 and so on.
func (l *Lab) AddHosts(ctx context.Context, count int) error {
	if count == 0 {
		return nil
	}
	first, err := l.reserve(count)
	if err != nil {
		return err
	}
	names := make([]string, count)
	for i := range count {
		added := newHost(first + i)
		names[i] = added.name
		if err := l.addHost(ctx, l.management, added); err != nil {
			return fmt.Errorf("adding %s: %w", added.name, err)
		}
	}
	return l.WaitForHosts(ctx, hostsLimit, names...)
}

// AddHost adds a machine to the lab, and a host with a given name to a management cluster, without waiting. The changes
// are called for all objects before their creation: the host, and its Secrets.
func (l *Lab) AddHost(ctx context.Context, cluster *Cluster, name string, changes ...func(client.Object)) error {
	index, err := l.reserve(1)
	if err != nil {
		return err
	}
	added := newHost(index)
	added.name = name
	if err := l.addHost(ctx, cluster, added, changes...); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return nil
}

// reserve counts hosts before they are added, so that concurrent callers add different hosts.
func (l *Lab) reserve(count int) (first int, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.hosts+count > MaxHosts {
		return 0, fmt.Errorf("adding %d hosts to %d: a lab can have %d", count, l.hosts, MaxHosts)
	}
	first = l.hosts
	l.hosts += count
	return first, nil
}

// WaitForHosts waits until hosts are available.
func (l *Lab) WaitForHosts(ctx context.Context, limit time.Duration, names ...string) error {
	what := strings.Join(names, ", ") + " are available"
	return l.options.Progress.WaitFor(ctx, what, limit, func(ctx context.Context) error {
		return available(ctx, l.management.Client, names)
	})
}

func (l *Lab) addHost(ctx context.Context, cluster *Cluster, added host, changes ...func(client.Object)) error {
	if err := l.addMachine(added.name, added.number); err != nil {
		return err
	}
	if err := l.bmc.Add(added.name, bmcUser, added.password, l.Machine(added.name)); err != nil {
		return err
	}
	objects, err := added.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		for _, change := range changes {
			change(object)
		}
	}
	return create(ctx, cluster.Client, objects...)
}

// available returns an error that names the unavailable hosts with their states.
func available(ctx context.Context, reader client.Reader, names []string) error {
	var missing []error
	for _, name := range names {
		var found bmov1alpha1.BareMetalHost
		if err := reader.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, &found); err != nil {
			return err
		}
		state := found.Status.Provisioning.State
		if state != bmov1alpha1.StateAvailable {
			missing = append(missing, fmt.Errorf("%s is in state %q %s", name, state, found.Status.ErrorMessage))
		}
	}
	return errors.Join(missing...)
}

// create creates objects one after the other. It does not change existing ones.
func create(ctx context.Context, writer client.Writer, objects ...client.Object) error {
	for _, object := range objects {
		if err := writer.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}
