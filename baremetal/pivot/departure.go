package pivot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Departure is the record in the source of the objects of a namespace that moved away. The manager adds the departure
// of a Metal3Cluster when it removes block-move, and removes it when it IsOver. clusterctl does not move the record.
//
// Controllers that apply manifests, such as Argo CD and Flux, create the objects again that clusterctl deletes. BMO
// treats such a host as new and inspects it, which reboots a machine of the target.
type Departure struct {
	// Hosts are the hosts that left the namespace.
	Hosts []DepartedHost

	// Infras are the epochs of the Metal3Clusters, by name.
	Infras map[string]Epoch
}

// DepartedHost identifies a host, even if its name changes.
type DepartedHost struct {
	Name string `json:"name"`

	// Controller and BootMAC are spec.bmc.address and spec.bootMACAddress. Empty if the host has none.
	Controller string `json:"bmcAddress,omitempty"`
	BootMAC    string `json:"bootMACAddress,omitempty"`

	// Infras are the sorted names of the Metal3Clusters that the host left with: that of its Cluster or, without a
	// consumer, all of its namespace. Empty if an earlier release has written it: then the record has the host as long
	// as any Metal3Cluster.
	Infras []string `json:"metal3Clusters,omitempty"`
}

const (
	// DepartureName is the name of the ConfigMap with the departure of its namespace.
	DepartureName = "metal3-moved-away"

	// departedHosts is the key of the hosts, and departedInfra the prefix of the keys of the Metal3Clusters.
	departedHosts = "hosts"
	departedInfra = "metal3cluster."
)

// Enter adds hosts.
func (d *Departure) Enter(hosts []*bmov1alpha1.BareMetalHost) {
	for _, host := range byName(hosts) {
		d.Hosts = append(d.Hosts, departed(host))
	}
}

// LeavingWith returns the hosts that leave with a Metal3Cluster: all of its namespace, except those of other Clusters.
func LeavingWith(infra string, hosts []*bmov1alpha1.BareMetalHost, around []Neighbour) []*bmov1alpha1.BareMetalHost {
	return slices.DeleteFunc(slices.Clone(hosts), func(host *bmov1alpha1.BareMetalHost) bool {
		return slices.ContainsFunc(local(around), func(other Neighbour) bool {
			return other.Name == ClusterOf(host) && other.Infra != "" && other.Infra != infra
		})
	})
}

// Add adds the departure of a Metal3Cluster, in place of an earlier one. A host without a consumer leaves with all
// Metal3Clusters of one epoch. It is here, so its departures with other epochs are over.
func (d *Departure) Add(leaving Departure) {
	if d.Infras == nil {
		d.Infras = map[string]Epoch{}
	}
	for infra, epoch := range leaving.Infras {
		d.Remove(infra)
		d.Infras[infra] = epoch
		for _, host := range leaving.Hosts {
			d.addHost(infra, host)
		}
	}
}

func (d *Departure) addHost(infra string, host DepartedHost) {
	same := func(left DepartedHost) bool {
		return len(left.Infras) > 0 && left.Name == host.Name && left.Controller == host.Controller &&
			left.BootMAC == host.BootMAC
	}
	i := slices.IndexFunc(d.Hosts, same)
	if i < 0 {
		host.Infras = []string{infra}
		d.Hosts = append(d.Hosts, host)
		return
	}
	isOver := func(with string) bool { return d.Infras[with] != d.Infras[infra] }
	with := append(slices.DeleteFunc(d.Hosts[i].Infras, isOver), infra)
	slices.Sort(with)
	d.Hosts[i].Infras = with
}

// Remove removes a Metal3Cluster, and the hosts that left with no other one.
func (d *Departure) Remove(infra string) {
	delete(d.Infras, infra)
	alone := []string{infra}
	d.Hosts = slices.DeleteFunc(d.Hosts, func(left DepartedHost) bool { return slices.Equal(left.Infras, alone) })
	for i, left := range d.Hosts {
		d.Hosts[i].Infras = slices.DeleteFunc(left.Infras, func(with string) bool { return with == infra })
	}
}

// Return removes the hosts that are back, and returns true if there are any. A host that is not paused is managed here:
// one that a move took away, or left behind, is always paused. Its Metal3Cluster may never return, because it was
// deleted in the target.
func (d *Departure) Return(hosts []*bmov1alpha1.BareMetalHost) bool {
	before := len(d.Hosts)
	d.Hosts = slices.DeleteFunc(d.Hosts, func(left DepartedHost) bool {
		return slices.ContainsFunc(hosts, func(host *bmov1alpha1.BareMetalHost) bool {
			_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
			return !paused && !infrav1.IsLeaving(host) && left.Is(host)
		})
	})
	return len(d.Hosts) < before
}

// Data returns the content of the ConfigMap. Many hosts are compressed: a ConfigMap has at most 1 MiB.
func (d *Departure) Data() map[string]string {
	// Marshalling strings returns no error.
	hosts, _ := json.Marshal(d.Hosts)
	data := map[string]string{departedHosts: pack(hosts)}
	for name, epoch := range d.Infras {
		data[departedInfra+name] = epoch.String()
	}
	return data
}

// DepartureOf parses the content of the ConfigMap.
func DepartureOf(data map[string]string) (Departure, error) {
	departure := Departure{Infras: map[string]Epoch{}}
	hosts, err := unpack(data[departedHosts])
	if err == nil {
		err = json.Unmarshal(hosts, &departure.Hosts)
	}
	if err != nil {
		return departure, fmt.Errorf("parsing key %s of ConfigMap %s: %w", departedHosts, DepartureName, err)
	}
	for key, value := range data {
		if name, is := strings.CutPrefix(key, departedInfra); is {
			departure.Infras[name] = parseEpoch(value)
		}
	}
	return departure, nil
}

// IsOver returns true if the departure of a Metal3Cluster is over, because its Cluster runs in this cluster: the move
// was aborted, or the Cluster moved back. Another Metal3Cluster of the namespace does not count.
//
//	recorded epoch of the Metal3Cluster  is over
//	none                                 no: another Metal3Cluster moved away
//	lower                                yes: the epoch was incremented since, last by the Cluster that runs again
//	the same or a higher one             no
func (d *Departure) IsOver(infra metav1.Object) bool {
	left, known := d.Infras[infra.GetName()]
	return known && left < EpochOf(infra)
}

// HostRefusal returns why the departure forbids to create a host. Empty if it does not.
//
//	created host                               may be created
//	did not move away                         yes
//	has a status or the epoch of a move       yes: it arrives
//	has the finalizer of BMO                  yes: it is from a backup, and is paused without its status
//	has the name, the BMC or the boot MAC     no: a manifest is applied again
//	address of a host that moved away
func (d *Departure) HostRefusal(host *bmov1alpha1.BareMetalHost) string {
	_, status := host.Annotations[bmov1alpha1.StatusAnnotation]
	if status || EpochOf(host) > 0 || slices.Contains(host.Finalizers, bmov1alpha1.BareMetalHostFinalizer) {
		return ""
	}
	i := d.find(host)
	if i < 0 {
		return ""
	}
	return refusal("BareMetalHost "+d.Hosts[i].Name, "BMO here would inspect the host, which reboots the machine",
		pluginCommand("forget", host.Namespace, "--host "+d.Hosts[i].Name))
}

// find returns the index of a host, even if its name changed, and -1 if the host did not move away.
func (d *Departure) find(host *bmov1alpha1.BareMetalHost) int {
	return slices.IndexFunc(d.Hosts, func(left DepartedHost) bool { return left.Is(host) })
}

// Is returns true for the host that moved away, even if its name changed.
func (d DepartedHost) Is(host *bmov1alpha1.BareMetalHost) bool {
	return d.Name == host.Name || d.isMachine(host)
}

// isMachine returns true for a host with the BMC address or the boot MAC address of the departed host.
func (d DepartedHost) isMachine(host *bmov1alpha1.BareMetalHost) bool {
	return d.Controller != "" && d.Controller == host.Spec.BMC.Address ||
		d.BootMAC != "" && strings.EqualFold(d.BootMAC, host.Spec.BootMACAddress)
}

// IsSameMachine returns true for two hosts with the same BMC address or boot MAC address.
func IsSameMachine(one, other *bmov1alpha1.BareMetalHost) bool { return departed(one).isMachine(other) }

func departed(host *bmov1alpha1.BareMetalHost) DepartedHost {
	return DepartedHost{Name: host.Name, Controller: host.Spec.BMC.Address, BootMAC: host.Spec.BootMACAddress}
}

// MayHaveStayed returns true for a paused host that a move may have left behind: it has no Cluster here, and no status
// from another cluster. Only the departure decides.
func MayHaveStayed(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	return host.Annotations[bmov1alpha1.PausedAnnotation] == infrav1.HostPausedByProvider && len(local(around)) == 0 &&
		!infrav1.IsLeaving(host) && host.DeletionTimestamp.IsZero() && !LostStatus(host) && bringsNoStatus(host)
}

// MayHaveLeft returns true for a paused host that this cluster would resume, and that a move may have taken away: it
// has the epoch of a move, and no status from another cluster. Only the departure decides.
func MayHaveLeft(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	return leavesFromHere(host) && GoalOf(host, around) == PhaseRunning
}

// leavesFromHere returns true for a host that a move from this cluster may have paused. A host without a status has no
// origin, here and in the target.
func leavesFromHere(host *bmov1alpha1.BareMetalHost) bool {
	return host.Annotations[bmov1alpha1.PausedAnnotation] == infrav1.HostPausedByProvider && bringsNoStatus(host) &&
		EpochOf(host).IsMove()
}

// bringsNoStatus returns true for a host without a status from another cluster.
func bringsNoStatus(host *bmov1alpha1.BareMetalHost) bool {
	origin := host.Annotations[infrav1.StatusOriginAnnotation]
	return origin == string(host.UID) || origin == "" && host.Annotations[bmov1alpha1.StatusAnnotation] == ""
}

// HasLeft returns true for a host that a move took away, so that another management cluster manages it.
//
//	departure                                      host has left
//	does not name the host                         no
//	names it, and all Metal3Clusters that it left  no: the move was given up
//	with run here with a higher epoch
//	names it otherwise                             yes: another Cluster of the namespace runs
func (d *Departure) HasLeft(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	i := d.find(host)
	if i < 0 {
		return false
	}
	isBack := func(infra string) bool {
		return slices.ContainsFunc(local(around), func(other Neighbour) bool {
			return other.Infra == infra && d.Infras[infra] < other.Epoch
		})
	}
	if with := d.Hosts[i].Infras; len(with) > 0 {
		return slices.ContainsFunc(with, func(infra string) bool { return !isBack(infra) })
	}
	return !slices.ContainsFunc(slices.Collect(maps.Keys(d.Infras)), isBack)
}

// HasStayed returns true for a host that MayHaveStayed and that no move took. The host was created after the manager
// had removed block-move, so clusterctl did not discover it, and no other management cluster has it.
//
//	departure                      host                                       has stayed
//	no move                        any                                        no
//	a move with the host           any                                        no: the host, or its copy, moved away
//	a move of an earlier epoch     has a later epoch                          no: it arrives, before its Cluster
//	a move without the host        any other                                  yes
func (d *Departure) HasStayed(host *bmov1alpha1.BareMetalHost) bool {
	var last Epoch
	for _, epoch := range d.Infras {
		last = max(last, epoch)
	}
	return len(d.Infras) > 0 && d.find(host) < 0 && EpochOf(host) <= last
}

// InfraRefusal returns why the departure forbids to create a Metal3Cluster. Empty if the Metal3Cluster did not move
// away, arrives, or is from a backup. The last two have finalizers.
func (d *Departure) InfraRefusal(infra metav1.Object) string {
	if _, left := d.Infras[infra.GetName()]; !left || len(infra.GetFinalizers()) > 0 || EpochOf(infra) > 0 {
		return ""
	}
	return refusal("Metal3Cluster "+infra.GetName(), "a second management cluster would act on its machines",
		pluginCommand("forget", infra.GetNamespace()))
}

func refusal(what, danger, forget string) string {
	return fmt.Sprintf("%s moved to another management cluster, and %s: stop the GitOps controller that applies it here, "+
		"and apply it in the other cluster. If it did not move, or no longer runs there, forget the move: %s",
		what, danger, forget)
}
