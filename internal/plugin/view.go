package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// view is the state of clusters and hosts. It has no time, so that two views of the same state are equal.
type view struct {
	header `json:",inline"`

	Source *sideView `json:"source"`

	// Target is nil if no target was named.
	Target *sideView `json:"target,omitempty"`

	// Namespaces are in the order in which to move them. Empty without --all-namespaces, without a target, and while one
	// side does not answer.
	Namespaces []namespaceView `json:"namespaces,omitempty"`
}

// sideView is the observed state of one cluster.
type sideView struct {
	// Problem is the error of the read. Empty if the cluster was read.
	Problem string `json:"problem,omitempty"`

	// Clusters are in the order of their namespaces and names.
	Clusters []clusterView `json:"clusters"`

	// Free are the hosts that serve no Cluster of this side, by namespace.
	Free []freeView `json:"free"`

	// Hosts are in the order of their namespaces and names.
	Hosts []hostView `json:"hosts"`
}

// clusterView is one Metal3Cluster.
type clusterView struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`

	// Paused is true if the Cluster is paused.
	Paused bool `json:"paused"`

	// ReadyForMove is the condition of this name. Empty if the manager has not set it.
	ReadyForMove metav1.ConditionStatus `json:"readyForMove,omitempty"`
	Reason       string                 `json:"reason,omitempty"`
	Message      string                 `json:"message,omitempty"`

	// Move is the stage of the move that is under way, from condition MoveInProgress. Empty if the manager has not set it.
	Move string `json:"move,omitempty"`

	// Ironic is the observed Ironic endpoint. Nil without spec.ironic.
	Ironic *ironicView `json:"ironic,omitempty"`

	// Hosts is the number of hosts of the Cluster, and their number in each phase.
	Hosts  int                 `json:"hosts"`
	Phases map[pivot.Phase]int `json:"phases"`

	// Notes require no action.
	Notes []string `json:"notes,omitempty"`
}

// ironicView is an Ironic endpoint.
type ironicView struct {
	// Holder is a kind and a name. Empty if it is not known.
	Holder string `json:"holder,omitempty"`

	// Nodes of the control plane that carry the endpoint, and how many of them are armed and have ready pods.
	Nodes     int `json:"nodes"`
	Armed     int `json:"armed"`
	PodsReady int `json:"podsReady"`

	// KnownHosts is the number of hosts that the Ironic of the cluster has registered, and adopted if they are
	// provisioned. Nil if another Ironic answers.
	// ExpectedHosts is the number of hosts that BMO keeps in Ironic.
	KnownHosts    *int32 `json:"knownHosts,omitempty"`
	ExpectedHosts int    `json:"expectedHosts"`
}

// freeView are hosts of a namespace without a consumer.
type freeView struct {
	Namespace string              `json:"namespace"`
	Hosts     int                 `json:"hosts"`
	Phases    map[pivot.Phase]int `json:"phases"`
}

// complete returns true if all sides were read.
func (v view) complete() bool {
	return v.Source.Problem == "" && (v.Target == nil || v.Target.Problem == "")
}

// summarize returns the view of the observed objects in each namespace of a cluster.
func summarize(sights []*sight) *sideView {
	seen := &sideView{Clusters: []clusterView{}, Free: []freeView{}, Hosts: []hostView{}}
	for _, in := range sights {
		free := freeView{Namespace: in.namespace, Phases: map[pivot.Phase]int{}}
		places := map[string]int{}
		for _, infra := range in.infras {
			if cluster := in.clusterOf(infra); cluster != nil {
				places[cluster.Name] = len(seen.Clusters)
			}
			seen.Clusters = append(seen.Clusters, in.summarizeCluster(infra))
		}
		for _, item := range in.hosts {
			one := viewOf(item, in.around)
			phase := one.Phase
			seen.Hosts = append(seen.Hosts, one)
			if place, found := places[pivot.ClusterOf(item)]; found {
				seen.Clusters[place].Phases[phase]++
				continue
			}
			free.Hosts++
			free.Phases[phase]++
		}
		if free.Hosts > 0 {
			seen.Free = append(seen.Free, free)
		}
	}
	slices.SortFunc(seen.Clusters, func(a, b clusterView) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(seen.Hosts, func(a, b hostView) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return seen
}

// sortedKeys returns the keys of a map, in order.
func sortedKeys[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

func (s *sight) summarizeCluster(infra *infrav1.Metal3Cluster) clusterView {
	seen := clusterView{Namespace: infra.Namespace, Name: infra.Name, Phases: map[pivot.Phase]int{}}
	kept, notes := 0, []string(nil)
	if cluster := s.clusterOf(infra); cluster != nil {
		seen.Paused = ptr.Deref(cluster.Spec.Paused, false)
		kept, notes = s.hostsOf(cluster.Name)
		seen.Hosts = kept + len(notes)
	}
	if judged := meta.FindStatusCondition(infra.Status.Conditions, infrav1.ReadyForMoveCondition); judged != nil {
		seen.ReadyForMove, seen.Reason, seen.Message = judged.Status, judged.Reason, judged.Message
	}
	if move := meta.FindStatusCondition(infra.Status.Conditions, infrav1.MoveInProgressCondition); move != nil {
		seen.Move = strings.TrimSuffix(move.Reason+": "+move.Message, ": ")
	}
	if infra.Spec.Ironic != nil {
		seen.Ironic, seen.Notes = summarizeIronic(infra.Status.Ironic), notes
		seen.Ironic.ExpectedHosts = kept
	}
	return seen
}

// hostsOf counts the hosts that a Metal3Cluster counts as known, when its Ironic has registered them. There is a note
// for each other host of the Cluster: BMO does not keep it in Ironic.
func (s *sight) hostsOf(cluster string) (kept int, notes []string) {
	for _, item := range s.hosts {
		if item.Labels[clusterv1.ClusterNameLabel] != cluster {
			continue
		}
		if withheld := host.Withheld(item); withheld != "" {
			notes = append(notes, fmt.Sprintf("BMO does not register host %s, which %s", item.Name, withheld))
			continue
		}
		kept++
	}
	return kept, notes
}

func summarizeIronic(status *infrav1.IronicStatus) *ironicView {
	if status == nil {
		return &ironicView{}
	}
	seen := &ironicView{Nodes: len(status.Nodes), KnownHosts: status.KnownHosts}
	if status.Holder != nil {
		seen.Holder = holderWords(*status.Holder)
	}
	for _, node := range status.Nodes {
		if ptr.Deref(node.Armed, false) {
			seen.Armed++
		}
		if ptr.Deref(node.PodsReady, false) {
			seen.PodsReady++
		}
	}
	return seen
}

func holderWords(holder infrav1.IronicHolder) string {
	return strings.TrimSpace(string(holder.Kind) + " " + holder.Name)
}

// row is one line of the table: a subject, a fact, and its value on each side.
type row struct {
	subject, fact string

	// sides has one cell, or two with a target.
	sides []string
}

func (r row) cells() []string { return append([]string{r.subject, r.fact}, r.sides...) }

const (
	// absent is the cell of a side that does not have the subject.
	absent = "-"

	// unseen is the cell of a side that does not answer.
	unseen = "?"
)

// rows returns the table of a view, without its head. Each row has its subject.
func (v view) rows() []row {
	sides := []*sideView{v.Source}
	if v.Target != nil {
		sides = append(sides, v.Target)
	}
	facts := make([]map[string]map[string]string, len(sides))
	subjects := sets.New[string]()
	for i, side := range sides {
		facts[i] = side.facts()
		subjects = subjects.Union(sets.KeySet(facts[i]))
	}
	var all []row
	for _, subject := range sets.List(subjects) {
		for _, fact := range factOrder() {
			if cells, told := beside(sides, facts, subject, fact); told {
				all = append(all, row{subject, fact, cells})
			}
		}
	}
	return all
}

// beside returns the cells of all sides. It returns false for a fact that no side has.
func beside(sides []*sideView, facts []map[string]map[string]string, subject, fact string) (cells []string, told bool) {
	for i, side := range sides {
		cell, known := facts[i][subject][fact]
		switch {
		case known:
			told = true
		case side.Problem != "":
			cell = unseen
		default:
			cell = absent
		}
		cells = append(cells, cell)
	}
	return cells, told
}

// facts returns the cells of one side, by subject and fact.
func (s *sideView) facts() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, cluster := range s.Clusters {
		all[cluster.Namespace+"/"+cluster.Name] = cluster.facts()
	}
	for _, free := range s.Free {
		all[free.Namespace+" (no Cluster)"] = map[string]string{factHosts: pivot.CountPhases(free.Phases)}
	}
	return all
}

// Facts of a subject.
const (
	factPaused = "paused"
	factReady  = "ready for move"
	factMove   = "move"
	factHolder = "VIP holder"
	factNodes  = "nodes"
	factKnown  = "registered hosts"
	factHosts  = "hosts"
)

func factOrder() []string {
	return []string{factPaused, factReady, factMove, factHolder, factNodes, factKnown, factHosts}
}

func (c clusterView) facts() map[string]string {
	facts := map[string]string{
		factPaused: map[bool]string{true: "yes", false: "no"}[c.Paused],
		factReady:  "not judged yet",
		factHosts:  pivot.CountPhases(c.Phases),
	}
	switch c.ReadyForMove {
	case "":
	case metav1.ConditionTrue:
		facts[factReady] = "yes: " + c.Reason
	default:
		facts[factReady] = "no: " + c.Reason
	}
	if c.Move != "" {
		facts[factMove] = c.Move
	}
	if c.Ironic == nil {
		return facts
	}
	facts[factHolder] = cmp.Or(c.Ironic.Holder, "not known")
	facts[factNodes] = fmt.Sprintf("%d: %d armed, %d with ready pods", c.Ironic.Nodes, c.Ironic.Armed, c.Ironic.PodsReady)
	facts[factKnown] = "not known"
	if c.Ironic.KnownHosts != nil {
		facts[factKnown] = fmt.Sprintf("%d of %d", *c.Ironic.KnownHosts, c.Ironic.ExpectedHosts)
	}
	return facts
}

// why returns the lines below the table: the error of each side, the obstacles of each Metal3Cluster, and the notes.
func (v view) why() []string {
	var lines []string
	for i, side := range []*sideView{v.Source, v.Target} {
		if side == nil {
			continue
		}
		name := []string{sourceSide, targetSide}[i]
		if side.Problem != "" {
			lines = append(lines, name+" not seen: "+side.Problem)
		}
		for _, cluster := range side.Clusters {
			if cluster.Message != "" && cluster.ReadyForMove != metav1.ConditionTrue {
				lines = append(lines, fmt.Sprintf("%s %s/%s: %s", name, cluster.Namespace, cluster.Name, cluster.Message))
			}
			for _, note := range cluster.Notes {
				lines = append(lines, fmt.Sprintf("%s %s/%s: %s", name, cluster.Namespace, cluster.Name, note))
			}
		}
	}
	return lines
}
