package plugin

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// side is a side of a namespace with one Cluster and two hosts, one of them in a phase.
func (c clusterView) side(namespace string, phase pivot.Phase) *sideView {
	c.Namespace, c.Name = namespace, "cluster"
	return &sideView{
		Clusters: []clusterView{c},
		Hosts: []hostView{
			{Namespace: namespace, Name: "host-0", Phase: pivot.PhaseRunning}, {Namespace: namespace, Name: "host-1", Phase: phase},
		},
	}
}

func TestStageOf(t *testing.T) {
	nothing := &sideView{}
	ready := clusterView{ReadyForMove: metav1.ConditionTrue}
	unready := clusterView{ReadyForMove: metav1.ConditionFalse}
	paused := clusterView{ReadyForMove: metav1.ConditionTrue, Paused: true}
	free := &sideView{Hosts: []hostView{{Phase: pivot.PhaseRunning}}}
	awaiting := ready.side("a", pivot.PhaseWaitingForEndpoint)
	awaiting.Hosts[1].Reason = pivot.PauseReason(pivot.AwaitIronic)
	for name, tc := range map[string]struct {
		source, target *sideView
		want           stage
	}{
		"Ready":         {ready.side("a", pivot.PhaseBusy), nothing, stageReady},
		"FreeHosts":     {free, nothing, stageNotReady},
		"NotReady":      {unready.side("a", pivot.PhaseRunning), nothing, stageNotReady},
		"NotJudged":     {clusterView{}.side("a", pivot.PhaseRunning), nothing, stageNotReady},
		"Parking":       {paused.side("a", pivot.PhaseParking), nothing, stageMoving},
		"Copied":        {paused.side("a", pivot.PhaseParked), paused.side("a", pivot.PhaseParked), stageMoving},
		"HalfDeleted":   {free, paused.side("a", pivot.PhaseParked), stageMoving},
		"Leftovers":     {free, ready.side("a", pivot.PhaseRunning), stageMoving},
		"NotUnpaused":   {nothing, paused.side("a", pivot.PhaseParked), stageArriving},
		"HostWaits":     {nothing, ready.side("a", pivot.PhaseWaitingForEndpoint), stageArriving},
		"IronicMissing": {nothing, awaiting, stageWaiting},
		"Both": {
			nothing, merge(awaiting, ready.side("a", pivot.PhaseResuming)), stageArriving,
		},
		"Arrived":       {nothing, ready.side("a", pivot.PhaseRunning), stageMoved},
		"ArrivedAndHas": {nothing, ready.side("a", pivot.PhasePausedByUser), stageMoved},
	} {
		if got := stageOf(*tc.source, *tc.target); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// merge joins several namespaces into one side.
func merge(sides ...*sideView) *sideView {
	all := &sideView{Clusters: []clusterView{}, Free: []freeView{}, Hosts: []hostView{}}
	for _, side := range sides {
		all.Clusters = append(all.Clusters, side.Clusters...)
		all.Hosts = append(all.Hosts, side.Hosts...)
	}
	return all
}

func TestCampaign(t *testing.T) {
	ready := clusterView{ReadyForMove: metav1.ConditionTrue, Reason: "Ready"}
	paused := clusterView{ReadyForMove: metav1.ConditionTrue, Reason: "Ready", Paused: true}
	unready := clusterView{ReadyForMove: metav1.ConditionFalse, Reason: "NotReady", Message: "host host-1 is provisioning"}
	ironic := clusterView{ReadyForMove: metav1.ConditionTrue, Reason: "Ready", Ironic: &ironicView{}}
	seen := view{
		header: headerOf("PivotStatus"),
		Source: merge(ironic.side("management", pivot.PhaseRunning), paused.side("site-2", pivot.PhaseParking),
			unready.side("site-3", pivot.PhaseBusy), ready.side("site-4", pivot.PhaseRunning)),
		Target: merge(ready.side("site-0", pivot.PhaseRunning), ready.side("site-1", pivot.PhaseResuming)),
	}
	where := sides{kubeconfig: "/etc/my source.kubeconfig", toKubeconfig: "target.kubeconfig", toContext: "admin@target"}
	seen.Namespaces = seen.campaign(where.flags())
	var text, document bytes.Buffer
	if err := errors.Join(seen.write(&text, false, false), printJSON(&document, seen.Namespaces, false)); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "status/campaign.text", text.Bytes())
	golden.Equal(t, "status/campaign.json", document.Bytes())

	// The last namespace moves after all others have arrived, also if their hosts wait for its Ironic.
	awaiting := ready.side("site-1", pivot.PhaseWaitingForEndpoint)
	awaiting.Hosts[1].Reason = pivot.PauseReason(pivot.AwaitIronic)
	seen.Source = merge(ironic.side("management", pivot.PhaseRunning))
	seen.Target = merge(ready.side("site-0", pivot.PhaseRunning), awaiting)
	want := []namespaceView{
		{Namespace: "site-0", Stage: stageMoved, Clusters: 1, Hosts: 2},
		{
			Namespace: "site-1", Stage: stageWaiting, Clusters: 1, Hosts: 2,
			Next: "wait until the namespace with the Ironic endpoint has moved",
		},
		{
			Namespace: "management", Stage: stageReady, Clusters: 1, Hosts: 2, Ironic: true,
			Next: "clusterctl metal3 pivot run --namespace management --to-kubeconfig target.kubeconfig",
		},
	}
	if diff := cmp.Diff(want, seen.campaign((&sides{toKubeconfig: "target.kubeconfig"}).flags())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	seen.Target = &sideView{Problem: "nobody answers"}
	if got := seen.campaign(""); got != nil {
		t.Errorf("one side was not seen: %v", got)
	}
	seen.Target = nil
	if got := seen.campaign(""); got != nil {
		t.Errorf("there is no target: %v", got)
	}
}

// TestFlagsOfSides expects flags that a user can paste into a shell.
func TestFlagsOfSides(t *testing.T) {
	for want, where := range map[string]sides{
		"": {namespace: "metal3"},
		" --kubeconfig a.kubeconfig --kubeconfig-context first --to-kubeconfig /b/c_1.yaml --to-kubeconfig-context second": {
			kubeconfig: "a.kubeconfig", context: "first", toKubeconfig: "/b/c_1.yaml", toContext: "second",
		},
		` --to-kubeconfig 'it'\''s $HOME'`: {toKubeconfig: "it's $HOME"},
	} {
		if got := where.flags(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
