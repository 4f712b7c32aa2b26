package main

import (
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// failure is a failure in a pivot. Failure and remedy are written by hand. The decision tables give the state of the
// hosts and the VIP holder.
type failure struct {
	what   string
	left   state
	remedy string
	// then is the state after the remedy. Nil if the remedy changes neither hosts nor the VIP holder.
	then *state
}

// state is the state of both clusters during a pivot.
type state struct {
	source, target site
	// management is true if the management cluster runs, and holds the VIP.
	management bool
	// taken is true if a control-plane node holds the VIP.
	taken bool
}

// site is the state of one of the two clusters. The zero site has no hosts, or no longer exists.
type site struct {
	hosts []hostState
	// paused is true if the Cluster is paused. verified is true if the Ironic of the Cluster answers.
	paused, verified bool
	// idle is true if no manager runs.
	idle bool
}

// hostState is the state of a host of the site.
type hostState int

const (
	busy hostState = iota
	quiesced
	leaving
	free
)

// pivotCommand returns a command of the plugin, to copy and paste.
func pivotCommand(name string) string {
	return "`clusterctl metal3 pivot " + name + " -n metal3 --to-kubeconfig target.kubeconfig`"
}

// failures are listed in the order of a pivot.
func failures() []failure {
	running := func(hosts ...hostState) site { return site{hosts: hosts, verified: true} }
	resting := func(hosts ...hostState) site { return site{hosts: hosts, verified: true, paused: true} }
	back := &state{source: running(quiesced), management: true}
	forth := &state{target: running(quiesced), management: true}
	return []failure{
		{"the management cluster dies before the move", state{}, "restore it; or set `takeoverAfterSilence` beforehand",
			&state{source: running(free), management: true}},
		{"the API server of the target does not answer at the beginning: clusterctl returns an error at once",
			state{source: running(free), management: true}, "when it answers again: " + pivotCommand("run"), nil},
		{"a host stays busy: clusterctl returns an error after some six minutes",
			state{source: resting(busy, quiesced), management: true},
			pivotCommand("abort") + "; `ReadyForMove` names the host",
			&state{source: running(busy, quiesced), management: true}},
		{"the manager of the source is killed while it pauses hosts",
			state{source: site{hosts: []hostState{quiesced}, paused: true, idle: true}, management: true},
			"nothing: the manager continues when it runs again; see " + pivotCommand("status"),
			&state{source: resting(quiesced), management: true}},
		{"clusterctl is killed before it says `Deleting objects`",
			state{source: resting(quiesced), target: resting(quiesced), management: true},
			pivotCommand("resume") + ", which unpauses the source and moves again; or " + pivotCommand("abort"), back},
		{"clusterctl is killed after that: the source has lost objects",
			state{source: resting(leaving), target: resting(quiesced), management: true},
			pivotCommand("resume") + ". Do **not** unpause the Cluster in the source; see [below](#left-in-the-source)", forth},
		{"an API server, or the manager of the target with its webhooks, fails during the move: clusterctl repeats each " +
			"write for some two and a half minutes",
			state{source: resting(quiesced), target: resting(quiesced), management: true},
			"restore it within this time; otherwise " + pivotCommand("resume"), nil},
		{"the management machine is switched off and on during the move: the ConfigMap `ironic-handover` names the " +
			"cluster already",
			state{source: resting(quiesced), target: resting(quiesced)},
			pivotCommand("resume"), back},
		{"the management cluster dies before the target was unpaused", state{target: resting(quiesced)},
			"if all objects have arrived: `clusterctl metal3 pivot unpause -n metal3 --kubeconfig target.kubeconfig`",
			&state{target: site{hosts: []hostState{quiesced}}}},
		{"the target cannot reach the endpoint",
			state{target: site{hosts: []hostState{quiesced}}, management: true},
			"correct what `IronicEndpointReady` names; " + pivotCommand("status"), forth},
		{"the management cluster dies after the move", state{target: running(free)},
			"nothing", &state{target: running(free), taken: true}},
		{"the node that holds the VIP dies later", state{target: running(free)},
			"nothing", &state{target: running(free), taken: true}},
	}
}

// failureTable returns the table of failures.
func failureTable() string {
	var rows [][]string
	for _, failure := range failures() {
		then := ""
		if failure.then != nil {
			then = failure.then.hosts() + "; " + failure.then.address()
		}
		rows = append(rows, []string{failure.what, failure.left.hosts(), failure.left.address(), failure.remedy, then})
	}
	return table([]string{"What happens", "Hosts", "VIP holder", "What to do", "Then"}, rows)
}

// hosts returns the state of the hosts of both clusters.
func (s state) hosts() string {
	var texts []string
	for _, place := range []struct {
		name string
		site site
	}{{"source", s.source}, {"target", s.target}} {
		for _, becomes := range place.site.becomes(s.holder()) {
			if len(s.source.hosts) > 0 && len(s.target.hosts) > 0 {
				becomes = place.name + ": " + becomes
			}
			texts = append(texts, becomes)
		}
	}
	if len(texts) == 0 {
		return "run on, unmanaged"
	}
	return strings.Join(texts, "; ")
}

// becomes returns the decisions of the tables for the hosts of a site.
func (s site) becomes(holder *infrav1.IronicHolder) []string {
	around := []pivot.Neighbour{{Name: "c", Paused: s.paused, Verified: s.verified, Endpoint: true, Holder: holder}}
	var texts []string
	for _, state := range s.hosts {
		host := state.example()
		if s.idle {
			texts = append(texts, "stay as they are")
			continue
		}
		step := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true})
		texts = append(texts, words(decision{pivot.PhaseOf(host, around), step}))
	}
	return slices.Compact(texts)
}

// decision is the phase of a host, and its next step.
type decision struct {
	phase pivot.Phase
	step  pivot.Step
}

// words describes a decision.
func words(decided decision) string {
	known := map[decision]string{
		{pivot.PhaseLeaving, pivot.Leave}:            "left alone",
		{pivot.PhaseBusy, pivot.Leave}:               "a busy host continues",
		{pivot.PhaseParked, pivot.Leave}:             "stay paused",
		{pivot.PhaseWaitingForEndpoint, pivot.Leave}: "stay paused until the Ironic of the cluster answers",
		{pivot.PhaseResuming, pivot.Resume}:          "resumed",
		{pivot.PhaseRunning, pivot.Nudge}:            "registered and adopted by the new Ironic",
		{pivot.PhaseRunning, pivot.Leave}:            "run on",
	}
	if text, is := known[decided]; is {
		return text
	}
	return string(decided.phase) + ", " + string(decided.step)
}

// address returns the VIP holder. The manager of a cluster that manages itself arms the nodes.
func (s state) address() string {
	armed := len(s.target.hosts) > 0 && !s.target.paused &&
		pivot.PlanArming(infrav1.TakeoverAfterMove, true, pivot.NotArmed, s.holder()) == pivot.Arm
	switch {
	case s.management:
		return "management cluster"
	case armed:
		return "a node claims the VIP"
	default:
		return "no holder: no node is armed"
	}
}

func (s state) holder() *infrav1.IronicHolder {
	switch {
	case s.management:
		return &infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "m"}
	case s.taken:
		return &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"}
	default:
		return nil
	}
}

// example returns a host of the cluster in this state.
func (h hostState) example() *bmov1alpha1.BareMetalHost {
	seen := metav1.NewTime(time.Unix(1, 0))
	host := &bmov1alpha1.BareMetalHost{}
	host.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	host.Annotations = map[string]string{}
	host.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine"}
	host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
	switch h {
	case busy:
		host.Status.LastUpdated, host.Status.Provisioning.State = &seen, bmov1alpha1.StateProvisioning
	case quiesced:
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	case leaving:
		host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
	case free:
	}
	return host
}
