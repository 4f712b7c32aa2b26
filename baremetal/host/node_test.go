package host_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestPlanLink(t *testing.T) {
	since := time.Unix(1_700_000_000, 0)
	const wantedID, wantedUID = "metal3://metal3/host-0/machine-0", "uid-of-host-0"
	none := []host.Node(nil)
	bare := func(names ...string) (nodes []host.Node) {
		for _, name := range names {
			nodes = append(nodes, host.Node{Name: name, Created: since.Add(time.Minute)})
		}
		return nodes
	}
	with := func(name, providerID string) []host.Node { return []host.Node{{Name: name, ProviderID: providerID}} }
	on := func(name, hostUID string) []host.Node {
		return []host.Node{{Name: name, HostUID: hostUID, Created: since.Add(time.Minute)}}
	}
	// older returns a Node from before the provisioning of the host.
	older := func(name string, reporting bool) []host.Node {
		return []host.Node{{Name: name, Created: since.Add(-time.Hour), Reporting: reporting}}
	}
	linked := host.LinkPlan{Provisioned: true}
	conflict := func(message string) host.LinkPlan {
		return host.LinkPlan{Outcome: outcome.Blocked(infrav1.ProviderIDConflictReason, message)}
	}
	write := func(name string) host.LinkPlan { return host.LinkPlan{Patch: name, Provisioned: true} }
	wait := host.LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForNodeReason,
		"Waiting for a Node with provider ID "+wantedID+" or with label metal3.io/uuid")}
	const register = "delete the Node and restart the kubelet of the host: kubectl delete node a. If the kubelet has the flag " +
		"--provider-id, correct the bootstrap configuration and replace the Machine instead of the restart"
	other := conflict("Node a has provider ID metal3://x instead of " + wantedID + ", and a provider ID is immutable: " +
		register)
	waitForOther := host.LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForNodeReason, wait.Outcome.Message+
		": Node a has the host name of the host, but its provider ID is metal3://x, which is immutable. "+
		"If it belongs to the host, "+register)}
	waitAbout := func(node, why string) host.LinkPlan {
		return host.LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForNodeReason, wait.Outcome.Message+": Node "+node+
			" has the host name of the host, but "+why+". If it belongs to the host, set the label: "+
			"kubectl label node "+node+" metal3.io/uuid="+wantedUID+" --overwrite")}
	}
	stale := host.LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForNodeReason,
		"Waiting for a Node with provider ID "+wantedID+" or with label metal3.io/uuid: Node a has the label, but is older "+
			"than the system on the host, and no kubelet updates it. If this lasts, delete Node a.")}
	staleBefore := stale
	staleBefore.Provisioned = true
	waitBefore := wait
	waitBefore.Provisioned = true
	cloud := host.LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForCloudProviderReason,
		"Waiting for the cloud provider to set provider ID "+wantedID+" on a Node")}

	cases := map[string]struct {
		byID, byUID, byName []host.Node
		others              []string
		shared              bool
		cloud, before       bool
		want                host.LinkPlan
	}{
		"one node has the ID": {byID: with("a", wantedID), want: linked},
		"one node has the ID and others have the label": {
			byID: with("a", wantedID), byUID: bare("b", "c"), byName: bare("d"), want: linked,
		},
		"one node has the ID from the cloud provider": {byID: with("a", wantedID), cloud: true, want: linked},
		"several nodes have the ID": {
			byID: append(with("b", wantedID), with("a", wantedID)...), byUID: bare("a"),
			want: conflict("Nodes a, b have the same provider ID " + wantedID + ": delete the stale ones"),
		},
		"one node with the label has no ID":                    {byUID: bare("a"), byName: bare("b"), want: write("a")},
		"one node with the label got its ID in between":        {byUID: with("a", wantedID), want: linked},
		"one node with the label got its ID from the cloud":    {byUID: with("a", wantedID), cloud: true, want: linked},
		"one node with the label waits for the cloud provider": {byUID: bare("a"), cloud: true, want: cloud},
		"one node with the label has another ID": {
			byUID: with("a", "metal3://x"), byName: bare("b"), want: other,
		},
		"one node with the label has another ID before the cloud provider changes it": {
			byUID: with("a", "aws:///x"), cloud: true, want: cloud,
		},
		"several nodes have the label": {
			byUID: bare("b", "a"),
			want:  conflict("Nodes a, b have the label metal3.io/uuid of the same host: delete the stale ones"),
		},
		"several nodes have the label of a cloud": {
			byUID: bare("b", "a"), cloud: true,
			want: conflict("Nodes a, b have the label metal3.io/uuid of the same host: delete the stale ones"),
		},
		"one node with the label is older than the system on the host": {byUID: older("a", false), want: stale},
		"one node with the label is older than the system on the host, and only this provider sets the ID": {
			byUID: older("a", false), before: true, want: staleBefore,
		},
		"one node with the label is older than the system on the host, and a kubelet updates it again": {
			byUID: older("a", true), want: write("a"),
		},
		"one node with the label is older than the system on the host, and a cloud provider sets the ID": {
			byUID: older("a", false), cloud: true, want: cloud,
		},
		"one node with the label is as old as the system on the host": {
			byUID: []host.Node{{Name: "a", Created: since}}, want: write("a"),
		},
		"one node with the label is newer than the system on the host, another is older": {
			byUID: append(older("a", false), bare("b")...), want: write("b"),
		},
		"one node with the label is newer than the system on the host, another is older and has another ID": {
			byUID: append(with("a", "metal3://x"), bare("b")...), want: write("b"),
		},
		"several nodes with the label are newer than the system on the host, another is older": {
			byUID: append(older("c", false), bare("b", "a")...),
			want:  conflict("Nodes a, b, c have the label metal3.io/uuid of the same host: delete the stale ones"),
		},
		"several nodes with the label are older than the system on the host": {
			byUID: append(older("a", false), older("b", true)...),
			want:  conflict("Nodes a, b have the label metal3.io/uuid of the same host: delete the stale ones"),
		},
		"one node with the host name has no ID":                    {byName: bare("a"), want: write("a")},
		"one node with the host name waits for the cloud provider": {byName: bare("a"), cloud: true, want: cloud},
		"one node with the host name has another ID":               {byName: with("a", "metal3://x"), want: waitForOther},
		"one node with the host name of several hosts has another ID": {
			byName: with("a", "metal3://x"), shared: true, want: waitForOther,
		},
		"one node with the host name and the label of another host has another ID": {
			byName: []host.Node{{Name: "a", ProviderID: "metal3://x", HostUID: "uid-1"}}, others: []string{"uid-1"},
			want: waitForOther,
		},
		"one node with the host name has no ID, another has another ID": {
			byName: append([]host.Node{{Name: "a", ProviderID: "metal3://x", Created: since}}, bare("b")...),
			want:   waitAbout("b", "several Nodes have it: a, b"),
		},
		"several nodes have the host name": {
			byName: bare("a", "b"), want: waitAbout("a", "several Nodes have it: a, b"),
		},
		"one node with the host name is that of another host": {
			byName: on("a", "uid-1"), others: []string{"uid-1"}, want: waitAbout("a", "its label names another host"),
		},
		"one node with the host name is that of another host, and only this provider sets the ID": {
			byName: on("a", "uid-1"), others: []string{"uid-1"}, before: true,
			want: host.LinkPlan{Provisioned: true, Outcome: waitAbout("a", "its label names another host").Outcome},
		},
		"one node with the host name names a host from before a move": {
			byName: on("a", "uid-0"), others: []string{"uid-1"}, want: write("a"),
		},
		"one node with the host name remains beside that of another host": {
			byName: append(on("a", "uid-1"), bare("b")...), others: []string{"uid-1"}, want: write("b"),
		},
		"several nodes with the host name remain beside that of another host": {
			byName: append(on("a", "uid-1"), bare("b", "c")...), others: []string{"uid-1"},
			want: waitAbout("a", "its label names another host"),
		},
		"one node with the label, another with the host name and the label of another host": {
			byUID: bare("a"), byName: on("b", "uid-1"), others: []string{"uid-1"}, want: write("a"),
		},
		"one node with the host name is older than the system on the host": {
			byName: []host.Node{{Name: "a", Created: since.Add(-time.Second)}},
			want:   waitAbout("a", "it is older than the system on the host, unless the clock of the workload cluster is behind"),
		},
		"one node with the host name is as old as the system on the host": {
			byName: []host.Node{{Name: "a", Created: since}}, want: write("a"),
		},
		"one node with the host name of several hosts": {
			byName: bare("a"), shared: true, want: waitAbout("a", "other hosts have it too"),
		},
		"one node with the label and the host name of several hosts": {
			byUID: bare("a"), byName: bare("a"), shared: true, want: write("a"),
		},
		"there is no node": {byID: none, want: wait},
		"there is no node, and only this provider sets the ID": {before: true, want: waitBefore},
		"there is no node, and a cloud provider sets the ID":   {cloud: true, want: cloud},
		"a conflict also counts if only this provider sets the ID": {
			byUID: with("a", "metal3://x"), before: true, want: other,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := host.PlanLink(
				host.NodeFacts{ByProviderID: tc.byID, ByHostUID: tc.byUID, ByHostname: tc.byName, OtherHosts: tc.others, SharedHostname: tc.shared},
				host.Linking{
					ProviderID: wantedID, HostUID: wantedUID, Since: since, CloudProvider: tc.cloud, BeforeNode: tc.before,
				})
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome.Outcome{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, node := range slices.Concat(tc.byUID, tc.byName) {
				if node.ProviderID != "" && strings.Contains(got.Outcome.Message, "kubectl label node "+node.Name+" ") {
					t.Errorf("a label does not change the provider ID of Node %s: %s", node.Name, got.Outcome.Message)
				}
			}
		})
	}
}

func TestNodeFactsHostUIDs(t *testing.T) {
	named := []host.Node{{Name: "a", HostUID: "uid-1"}, {Name: "b"}, {Name: "c", HostUID: "uid-2"}}
	cases := map[string]struct {
		reason string
		facts  host.NodeFacts
		want   []string
	}{
		"OnlyByHostname": {"the label may name another host", host.NodeFacts{ByHostname: named}, []string{"uid-1", "uid-2"}},
		"ByProviderID":   {"the host name does not matter", host.NodeFacts{ByHostname: named, ByProviderID: named}, nil},
		"ByHostUID":      {"the host name does not matter", host.NodeFacts{ByHostname: named, ByHostUID: named}, nil},
		"Nothing":        {"there are no labels to look up", host.NodeFacts{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.facts.HostUIDs()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProvisionedSince(t *testing.T) {
	created, started := time.Unix(1_700_000_000, 0), metav1.Unix(1_700_000_100, 0)
	current := build.Host("host")
	if got := host.ProvisionedSince(current, created); !got.Equal(created) {
		t.Errorf("got %s, want the given time", got)
	}
	current.Status.OperationHistory.Provision.Start = started
	if got := host.ProvisionedSince(current, created); !got.Equal(started.Time) {
		t.Errorf("got %s, want the start of the provisioning", got)
	}
}
