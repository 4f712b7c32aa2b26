package plugin

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stage is the progress of a namespace on its way to the target.
type stage string

// Values of stage.
const (
	stageReady    stage = "Ready"
	stageNotReady stage = "NotReady"
	stageMoving   stage = "Moving"
	stageArriving stage = "Arriving"
	stageMoved    stage = "Moved"

	// stageWaiting means that the namespace has moved, and that its hosts wait for the Ironic endpoint of another one.
	stageWaiting stage = "WaitingForIronic"
)

// namespaceView is the progress of one namespace.
type namespaceView struct {
	Namespace string `json:"namespace"`
	Stage     stage  `json:"stage"`

	// Clusters and Hosts are the numbers on the side that has more of them.
	Clusters int `json:"clusters"`
	Hosts    int `json:"hosts"`

	// Ironic is true if a Metal3Cluster of the namespace manages an Ironic endpoint.
	Ironic bool `json:"ironic,omitempty"`

	// Next is the next command, or the event to wait for. Empty for a namespace that has moved.
	Next string `json:"next,omitempty"`
}

// campaign returns the progress of the namespaces, in the order in which to move them. Namespaces with an Ironic
// endpoint are last: BMO has one Ironic for all namespaces, which serves them until the handover. Flags name the
// clusters.
func (v view) campaign(flags string) []namespaceView {
	if v.Target == nil || !v.complete() {
		return nil
	}
	here, there := v.Source.byNamespace(), v.Target.byNamespace()
	names := append(sortedKeys(here), sortedKeys(there)...)
	slices.Sort(names)
	var all, last []namespaceView
	for _, name := range slices.Compact(names) {
		source, target := here[name], there[name]
		one := namespaceView{
			Namespace: name, Stage: stageOf(source, target), Ironic: source.managesIronic() || target.managesIronic(),
			Clusters: max(len(source.Clusters), len(target.Clusters)), Hosts: max(len(source.Hosts), len(target.Hosts)),
		}
		if one.Ironic {
			last = append(last, one)
		} else {
			all = append(all, one)
		}
	}
	serves := slices.ContainsFunc(all, func(one namespaceView) bool {
		return one.Stage != stageMoved && one.Stage != stageWaiting
	})
	all = append(all, last...)
	for i := range all {
		all[i].Next = all[i].next(serves, flags)
	}
	return all
}

// stageOf returns the stage of a namespace. The first row that matches counts.
//
//	source                                      target                     stage
//	has Clusters, and one of them is paused     any                        Moving
//	has Clusters, and one is not ready to move  any                        NotReady
//	has Clusters                                any                        Ready
//	has hosts, and no Cluster                   has Clusters               Moving: clusterctl deletes the last objects,
//	                                                                       or has left them
//	has hosts, and no Cluster                   has none                   NotReady: hosts move with a Cluster
//	has nothing                                 has a paused Cluster, or   Arriving
//	                                            a host that still waits
//	has nothing                                 has hosts that wait for    WaitingForIronic
//	                                            an Ironic that is to move
//	has nothing                                 anything else              Moved
func stageOf(source, target sideView) stage {
	paused := func(cluster clusterView) bool { return cluster.Paused }
	unready := func(cluster clusterView) bool { return cluster.ReadyForMove != metav1.ConditionTrue }
	switch {
	case slices.ContainsFunc(source.Clusters, paused):
		return stageMoving
	case slices.ContainsFunc(source.Clusters, unready):
		return stageNotReady
	case len(source.Clusters) > 0:
		return stageReady
	case len(source.Hosts) > 0 && len(target.Clusters) > 0:
		return stageMoving
	case len(source.Hosts) > 0:
		return stageNotReady
	case slices.ContainsFunc(target.Clusters, paused), slices.ContainsFunc(target.Hosts, arrives):
		return stageArriving
	case slices.ContainsFunc(target.Hosts, awaitsIronic):
		return stageWaiting
	default:
		return stageMoved
	}
}

// next returns the next step of a namespace. Serves is true if other namespaces depend on its Ironic.
func (n namespaceView) next(serves bool, flags string) string {
	command := func(name string) string {
		return fmt.Sprintf("clusterctl metal3 pivot %s --namespace %s%s", name, n.Namespace, flags)
	}
	switch {
	case n.Stage == stageMoved:
		return ""
	case n.Stage == stageWaiting:
		return "wait until the namespace with the Ironic endpoint has moved"
	case n.Stage == stageArriving:
		return "wait: " + command("status --watch --until=arrived")
	case n.Stage == stageMoving:
		return "wait; if clusterctl has ended: " + command("resume")
	case n.Ironic && serves:
		return "after the others: its Ironic serves them"
	case n.Stage == stageNotReady:
		return command("preflight")
	default:
		return command("run")
	}
}

// byNamespace splits the observed objects of one cluster.
func (s *sideView) byNamespace() map[string]sideView {
	all := map[string]sideView{}
	for _, cluster := range s.Clusters {
		one := all[cluster.Namespace]
		one.Clusters = append(one.Clusters, cluster)
		all[cluster.Namespace] = one
	}
	for _, host := range s.Hosts {
		one := all[host.Namespace]
		one.Hosts = append(one.Hosts, host)
		all[host.Namespace] = one
	}
	return all
}

func (s *sideView) managesIronic() bool {
	return slices.ContainsFunc(s.Clusters, func(cluster clusterView) bool { return cluster.Ironic != nil })
}

// printCampaign prints the namespaces of a view, and how many of them have moved. It prints nothing for a single one.
func printCampaign(writer io.Writer, namespaces []namespaceView) error {
	if len(namespaces) < 2 { //nolint:mnd // One namespace is no campaign.
		return nil
	}
	table, moved, hosts, all := [][]string{{"NAMESPACE", "STAGE", "CLUSTERS", "HOSTS", "NEXT"}}, 0, 0, 0
	for _, one := range namespaces {
		table = append(table, []string{
			one.Namespace, string(one.Stage), strconv.Itoa(one.Clusters), strconv.Itoa(one.Hosts), one.Next,
		})
		all += one.Hosts
		if one.Stage == stageMoved {
			moved++
			hosts += one.Hosts
		}
	}
	if err := printTable(writer, table); err != nil {
		return err
	}
	return say(writer, "%d of %d namespaces have moved, with %d of %d hosts.\n", moved, len(namespaces), hosts, all)
}
