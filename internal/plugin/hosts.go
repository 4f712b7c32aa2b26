package plugin

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// hostPage is the number of whole hosts that one request reads. The hardware details of a host have some 10 kB.
	hostPage = 250

	// fewChanged is the number of changed hosts that are read one by one. If more have changed, all are read in pages.
	fewChanged = 50
)

// hostView is one host on one side.
type hostView struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Cluster   string      `json:"cluster,omitempty"`
	Phase     pivot.Phase `json:"phase"`

	// Reason is the reason of the phase. Empty if the phase is sufficient.
	Reason string `json:"reason,omitempty"`

	// Since is the time of the pause, or of the last change of the status by BMO. Nil if not known.
	Since *metav1.Time `json:"since,omitempty"`

	State     bmov1alpha1.ProvisioningState `json:"state,omitempty"`
	PoweredOn bool                          `json:"poweredOn"`
}

func viewOf(host *bmov1alpha1.BareMetalHost, around []pivot.Neighbour) hostView {
	seen := hostView{
		Namespace: host.Namespace, Name: host.Name, Cluster: pivot.ClusterOf(host), Phase: pivot.PhaseOf(host, around),
		Since: sinceOf(host), State: host.Status.Provisioning.State, PoweredOn: host.Status.PoweredOn,
	}
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch {
	case seen.Phase == pivot.PhaseBusy:
		seen.Reason = pivot.Busy(host)
	case paused && by == infrav1.HostPausedByProvider:
		seen.Reason = host.Annotations[infrav1.PauseReasonAnnotation]
	case paused:
		seen.Reason = strings.TrimSpace(fmt.Sprintf("annotation %s %s", bmov1alpha1.PausedAnnotation, by))
	case host.Status.ErrorType != "":
		seen.Reason = string(host.Status.ErrorType)
	}
	return seen
}

// sinceOf returns the time at which the writer of the pause last changed the host, or BMO last changed its status.
func sinceOf(host *bmov1alpha1.BareMetalHost) *metav1.Time {
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused {
		for _, entry := range host.ManagedFields {
			if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+bmov1alpha1.PausedAnnotation+`"`) {
				return entry.Time
			}
		}
	}
	if host.Status.LastUpdated.IsZero() {
		return nil
	}
	return host.Status.LastUpdated
}

// readHosts reads the hosts of a namespace, and keeps them without their hardware details. The next call lists
// metadata, and reads only the hosts that have changed.
func (c *cluster) readHosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	if c.hosts[namespace] == nil {
		return c.listHosts(ctx, namespace)
	}
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHostList"))
	if err := c.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	known := c.hosts[namespace]
	changed := 0
	for i := range list.Items {
		if !known.current(&list.Items[i]) {
			changed++
		}
	}
	if changed > fewChanged {
		return c.listHosts(ctx, namespace)
	}
	kept := hostMemory{}
	hosts := make([]*bmov1alpha1.BareMetalHost, 0, len(list.Items))
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		host := known[key]
		if !known.current(&list.Items[i]) {
			host = &bmov1alpha1.BareMetalHost{}
			if err := c.client.Get(ctx, key, host); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading BareMetalHost %s: %w", key, err)
			} else if err != nil {
				continue
			}
			host.Status.HardwareDetails = nil
		}
		kept[key] = host
		hosts = append(hosts, host)
	}
	c.hosts[namespace] = kept
	return hosts, nil
}

// listHosts reads all hosts of a namespace, in pages.
func (c *cluster) listHosts(ctx context.Context, namespace string) ([]*bmov1alpha1.BareMetalHost, error) {
	kept, hosts := hostMemory{}, []*bmov1alpha1.BareMetalHost(nil)
	for more := ""; ; {
		page := bmov1alpha1.BareMetalHostList{}
		if err := c.client.List(ctx, &page, client.InNamespace(namespace), client.Limit(hostPage),
			client.Continue(more)); err != nil {
			return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
		}
		for i := range page.Items {
			host := &page.Items[i]
			host.Status.HardwareDetails = nil
			kept[client.ObjectKeyFromObject(host)] = host
			hosts = append(hosts, host)
		}
		if more = page.Continue; more == "" {
			break
		}
	}
	if c.hosts == nil {
		c.hosts = map[string]hostMemory{}
	}
	c.hosts[namespace] = kept
	return hosts, nil
}

// hostMemory has the hosts of the last read.
type hostMemory map[client.ObjectKey]*bmov1alpha1.BareMetalHost

// current returns true if a host has not changed since the last read.
func (m hostMemory) current(seen *metav1.PartialObjectMetadata) bool {
	host := m[client.ObjectKeyFromObject(seen)]
	return host != nil && host.UID == seen.UID && host.ResourceVersion == seen.ResourceVersion
}

// settled returns true for phases in which a host waits for nothing.
func settled(phase pivot.Phase) bool {
	return phase == pivot.PhaseRunning || phase == pivot.PhaseParked || phase == pivot.PhaseLeaving
}

// pair is a host on both sides. A side without it is nil.
type pair struct{ source, target *hostView }

// shown returns the side to print.
func (p pair) shown() *hostView {
	switch {
	case p.source == nil:
		return p.target
	case p.target == nil, settled(p.target.Phase) && !settled(p.source.Phase):
		return p.source
	default:
		return p.target
	}
}

// pairs returns the hosts of both sides by namespace and name.
func (v view) pairs() map[string]pair {
	all := map[string]pair{}
	for i := range v.Source.Hosts {
		host := &v.Source.Hosts[i]
		all[host.Namespace+"/"+host.Name] = pair{source: host}
	}
	if v.Target == nil {
		return all
	}
	for i := range v.Target.Hosts {
		host := &v.Target.Hosts[i]
		both := all[host.Namespace+"/"+host.Name]
		both.target = host
		all[host.Namespace+"/"+host.Name] = both
	}
	return all
}

// phaseCells returns the phases of a host on both sides.
func (v view) phaseCells(both pair) []string {
	cell := func(side *sideView, host *hostView) string {
		switch {
		case host != nil:
			return string(host.Phase)
		case side.Problem != "":
			return unseen
		default:
			return absent
		}
	}
	cells := []string{cell(v.Source, both.source)}
	if v.Target != nil {
		cells = append(cells, cell(v.Target, both.target))
	}
	return cells
}

// hostTable returns a row for each host. Wide adds columns. Brief omits hosts that do not wait.
func (v view) hostTable(wide, brief bool) [][]string {
	head := []string{"HOST", "PHASE"}
	if v.Target != nil {
		head = []string{"HOST", "SOURCE", "TARGET"}
	}
	if wide {
		head = append(head, "CLUSTER", "STATE", "POWER")
	}
	table := [][]string{append(head, "SINCE", "REASON")}
	pairs := v.pairs()
	for _, name := range sortedKeys(pairs) {
		both := pairs[name]
		host := both.shown()
		if brief && settled(host.Phase) {
			continue
		}
		row := append([]string{name}, v.phaseCells(both)...)
		if wide {
			power := map[bool]string{true: "on", false: "off"}[host.PoweredOn]
			row = append(row, cmp.Or(host.Cluster, absent), cmp.Or(string(host.State), absent), power)
		}
		since := absent
		if host.Since != nil {
			since = host.Since.UTC().Format("2006-01-02T15:04:05Z")
		}
		table = append(table, append(row, since, cmp.Or(host.Reason, absent)))
	}
	return table
}
