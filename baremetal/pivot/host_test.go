package pivot_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

var seenAt = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// claimed returns a provisioned host of cluster "c".
func claimed() *bmov1alpha1.BareMetalHost {
	host := &bmov1alpha1.BareMetalHost{}
	host.Namespace, host.Name = "metal3", "host-0"
	host.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	host.Annotations = map[string]string{}
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Namespace: "metal3", Name: "m",
	}
	host.Status.LastUpdated = &seenAt
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
	host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
	host.Status.Provisioning.ID = "uuid"
	return host
}

// consumer is the Metal3Machine that claimed the host.
func consumer() *infrav1.Metal3Machine {
	machine := &infrav1.Metal3Machine{}
	machine.Namespace, machine.Name = "metal3", "m"
	machine.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m"},
	}
	return machine
}

func free() *bmov1alpha1.BareMetalHost {
	host := claimed()
	host.Labels, host.Spec.ConsumerRef = nil, nil
	host.Status.Provisioning.State = bmov1alpha1.StateAvailable
	return host
}

// record sets the annotation for the status of a host.
func record(t *testing.T, host *bmov1alpha1.BareMetalHost) {
	t.Helper()
	content, err := json.Marshal(host.Status)
	if err != nil {
		t.Fatal(err)
	}
	var status map[string]any
	if err := json.Unmarshal(content, &status); err != nil {
		t.Fatal(err)
	}
	annotation, err := pivot.StatusAnnotation(status)
	if err != nil {
		t.Fatal(err)
	}
	host.Annotations[bmov1alpha1.StatusAnnotation] = annotation
}

var (
	paused     = pivot.Neighbour{Name: "c", Paused: true, Verified: true}
	runs       = pivot.Neighbour{Name: "c", Verified: true}
	unverified = pivot.Neighbour{Name: "c"}
	ungated    = pivot.Neighbour{Name: "c", Verified: true, Ungated: true}

	ungatedPaused = pivot.Neighbour{Name: "c", Verified: true, Ungated: true, Paused: true}
)

// stand returns a host that matches the facts.
func stand(t *testing.T, moving, busy, pause, recorded string) *bmov1alpha1.BareMetalHost {
	t.Helper()
	host := claimed()
	switch busy {
	case "busy":
		host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
	case "deleted":
		host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	if recorded == "recorded" {
		record(t, host)
	}
	if pause != "nobody" {
		host.Annotations[bmov1alpha1.PausedAnnotation] = map[string]string{"ours": infrav1.HostPausedByProvider}[pause]
	}
	if moving == "moving" {
		host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
	}
	return host
}

// TestPlanHost tests every combination of the facts.
func TestPlanHost(t *testing.T) {
	table := [][]string{
		// goal, clusterctl deletes it, BMO, paused by, pause, status, step
		{"*", "moving", "*", "*", "*", "*", "Leave"},
		{"WaitingForEndpoint", "*", "*", "*", "*", "*", "Leave"},
		{"Parked", "*", "deleted", "*", "*", "*", "Leave"},
		{"Parked", "*", "busy", "ours", "*", "*", "Resume"},
		{"Parked", "*", "busy", "*", "*", "*", "Leave"},
		{"Parked", "*", "*", "nobody", "*", "*", "Pause"},
		{"Parked", "*", "*", "*", "*", "recorded", "Leave"},
		{"Parked", "*", "*", "*", "fresh", "*", "Settle"},
		{"Parked", "*", "*", "*", "*", "*", "Record"},
		{"Running", "*", "*", "ours", "*", "*", "Resume"},
		{"Running", "*", "*", "*", "*", "*", "Leave"},
	}
	around := map[string][]pivot.Neighbour{"Parked": {paused}, "Running": {runs}, "WaitingForEndpoint": {unverified}}
	for _, facts := range combinations(
		[]string{"Parked", "Running", "WaitingForEndpoint"}, []string{"moving", "here"}, []string{"busy", "deleted", "quiet"},
		[]string{"nobody", "ours", "theirs"}, []string{"settled", "fresh"}, []string{"recorded", "not recorded"},
	) {
		host := stand(t, facts[1], facts[2], facts[3], facts[5])
		got := pivot.PlanHost(host, around[facts[0]], pivot.HostFacts{Settled: facts[4] == "settled"})
		if want := answer(table, facts); string(got) != want {
			t.Errorf("%v: got %s, want %s", facts, got, want)
		}
	}
}

// TestBusyBehindAnOpenGate begins operations on parked hosts. clusterctl copies hosts as soon as no Metal3Cluster has
// block-move.
func TestBusyBehindAnOpenGate(t *testing.T) {
	other := func(gateOpen bool) pivot.Neighbour {
		return pivot.Neighbour{Name: "other", Paused: true, Verified: true, Ungated: gateOpen}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	cluster.Spec.Paused = ptr.To(true)
	bare := pivot.NeighbourOf(cluster, nil)
	for name, tc := range map[string]struct {
		reason string
		around []pivot.Neighbour
		want   pivot.Step
	}{
		"Closed":   {"clusterctl waits for the host", []pivot.Neighbour{paused}, pivot.Resume},
		"Open":     {"clusterctl reads the host live", []pivot.Neighbour{ungatedPaused}, pivot.Leave},
		"AllOpen":  {"no gate is left", []pivot.Neighbour{ungatedPaused, other(true)}, pivot.Leave},
		"OneOpen":  {"the other gate waits for all hosts", []pivot.Neighbour{ungatedPaused, other(false)}, pivot.Resume},
		"NextRuns": {"no gate of a move", []pivot.Neighbour{ungatedPaused, {Name: "other", Verified: true}}, pivot.Leave},
		"NoGate":   {"clusterctl has deleted the Metal3Cluster, or not copied it yet", []pivot.Neighbour{bare}, pivot.Leave},
		"Elsewhere": {
			"a gate of another namespace", []pivot.Neighbour{ungatedPaused, {Elsewhere: true, Paused: true}}, pivot.Leave,
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
			record(t, host)
			host.Annotations[bmov1alpha1.RebootAnnotationPrefix] = ""
			if got := pivot.PlanHost(host, tc.around, pivot.HostFacts{Settled: true}); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestGoalOf(t *testing.T) {
	other := func(paused, verified bool) pivot.Neighbour {
		return pivot.Neighbour{Name: "other", Paused: paused, Verified: verified}
	}
	endpoint := func(paused, verified bool) pivot.Neighbour {
		return pivot.Neighbour{Name: "other", Paused: paused, Verified: verified, Endpoint: true}
	}
	reserved := free()
	reserved.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c",
	}
	stranger := free()
	stranger.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	stranger.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "example.org/v1", Kind: "Thing", Name: "x"}
	away := func(clusterID string, verified bool) pivot.Neighbour {
		return pivot.Neighbour{Elsewhere: true, Endpoint: true, ClusterID: clusterID, Verified: verified}
	}
	claimedAway := away("c2", false)
	claimedAway.Superseded = true
	stamped := func(epoch pivot.Epoch) *bmov1alpha1.BareMetalHost {
		host := free()
		host.Annotations[infrav1.MoveEpochAnnotation] = epoch.String()
		return host
	}
	movesWith := func(epoch pivot.Epoch) pivot.Neighbour {
		return pivot.Neighbour{Name: "c", Paused: true, Epoch: epoch}
	}
	at := func(epoch pivot.Epoch) pivot.Neighbour {
		return pivot.Neighbour{Name: "other", Verified: true, Epoch: epoch}
	}
	held := free()
	held.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	arriving := func(epoch pivot.Epoch, edits ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		host := pausedHost(stamped(epoch), annotated(infrav1.StatusOriginAnnotation, "there"))
		host.UID = "here"
		for _, edit := range edits {
			edit(host)
		}
		return host
	}
	without := func(annotation string) func(*bmov1alpha1.BareMetalHost) {
		return func(host *bmov1alpha1.BareMetalHost) { delete(host.Annotations, annotation) }
	}
	givenUp := func(host *bmov1alpha1.BareMetalHost) { host.UID = "there" }
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		around []pivot.Neighbour
		want   pivot.Phase
	}{
		"OwnPaused":      {"its cluster moves", claimed(), []pivot.Neighbour{paused, other(false, true)}, pivot.PhaseParked},
		"OwnRuns":        {"the pause of another Cluster does not count", claimed(), []pivot.Neighbour{other(true, true), runs}, pivot.PhaseRunning},
		"OwnUnverified":  {"a foreign Ironic may answer", claimed(), []pivot.Neighbour{unverified, other(false, true)}, pivot.PhaseWaitingForEndpoint},
		"OwnMissing":     {"a host may arrive before its Cluster", claimed(), []pivot.Neighbour{other(false, true)}, pivot.PhaseWaitingForEndpoint},
		"OwnMissingMove": {"it moves with its namespace", claimed(), []pivot.Neighbour{other(true, true)}, pivot.PhaseParked},
		"OwnMissingSome": {"a move pauses all Clusters", claimed(), []pivot.Neighbour{other(true, true), {Name: "third"}}, pivot.PhaseWaitingForEndpoint},
		"OwnAlone":       {"the namespace has no Cluster", claimed(), nil, pivot.PhaseWaitingForEndpoint},
		"Alone":          {"the namespace has no Cluster", free(), nil, pivot.PhaseWaitingForEndpoint},
		"FreeAllPaused":  {"free hosts move with the namespace", free(), []pivot.Neighbour{paused, other(true, false)}, pivot.PhaseParked},
		"FreeSomePaused": {"a move pauses all Clusters", free(), []pivot.Neighbour{paused, other(false, true)}, pivot.PhaseRunning},
		"FreeUnverified": {"the endpoint of one Cluster is not verified", free(), []pivot.Neighbour{runs, other(false, false)}, pivot.PhaseWaitingForEndpoint},
		"FreeRuns":       {"all Clusters run, and their endpoints are verified", free(), []pivot.Neighbour{runs, other(false, true)}, pivot.PhaseRunning},
		"Reserved":       {"it belongs to its cluster", reserved, []pivot.Neighbour{paused, other(false, true)}, pivot.PhaseParked},
		"Lent":           {"it is served by the Ironic of another cluster", claimed(), []pivot.Neighbour{runs, endpoint(false, true)}, pivot.PhaseRunning},
		"LentUnverified": {"a foreign Ironic may answer", claimed(), []pivot.Neighbour{runs, endpoint(false, false)}, pivot.PhaseWaitingForEndpoint},
		"LentPaused":     {"clusterctl unpauses one Cluster after the other", claimed(), []pivot.Neighbour{runs, endpoint(true, false)}, pivot.PhaseWaitingForEndpoint},
		"LentFree":       {"clusterctl unpauses one Cluster after the other", free(), []pivot.Neighbour{runs, endpoint(true, false)}, pivot.PhaseWaitingForEndpoint},
		"Away":           {"BMO has one Ironic for all namespaces", claimed(), []pivot.Neighbour{runs, away("c2", true)}, pivot.PhaseRunning},
		"AwayUnverified": {"a foreign Ironic may answer", claimed(), []pivot.Neighbour{runs, away("c2", false)}, pivot.PhaseWaitingForEndpoint},
		"AwayOfOne":      {"one of the endpoints with this clusterID is not verified", claimed(), []pivot.Neighbour{runs, away("c2", true), away("c2", false)}, pivot.PhaseWaitingForEndpoint},
		"AwayOfTwo":      {"each of several Ironics has a BMO of its own", claimed(), []pivot.Neighbour{runs, away("c2", false), away("c3", false)}, pivot.PhaseRunning},
		"AwayUnknown":    {"no clusterID was chosen yet", claimed(), []pivot.Neighbour{runs, away("", false)}, pivot.PhaseRunning},
		"AwayBeside":     {"the namespace has an endpoint of its own", claimed(), []pivot.Neighbour{runs, endpoint(false, true), away("c2", false)}, pivot.PhaseRunning},
		"AwayMove":       {"only a Cluster of the own namespace parks a host", claimed(), []pivot.Neighbour{paused, away("c2", true)}, pivot.PhaseParked},
		"AwayFree":       {"another Ironic may answer", free(), []pivot.Neighbour{runs, away("c2", false)}, pivot.PhaseWaitingForEndpoint},
		"AwayAlone":      {"a verified Ironic serves a host without a Cluster", free(), []pivot.Neighbour{away("c2", true)}, pivot.PhaseRunning},
		"AwayAlonePause": {"the pause may belong to a move", held, []pivot.Neighbour{away("c2", true)}, pivot.PhaseWaitingForEndpoint},
		"AwayAloneLost":  {"its Cluster may arrive later", claimed(), []pivot.Neighbour{away("c2", true)}, pivot.PhaseWaitingForEndpoint},
		"AwayClaimed":    {"BMO of the other management cluster uses the same Ironic", claimed(), []pivot.Neighbour{runs, claimedAway}, pivot.PhaseFenced},
		"AwayClaimFree":  {"the other management cluster may have the host", free(), []pivot.Neighbour{claimedAway}, pivot.PhaseFenced},
		"AwayClaimMove":  {"a copy of the Cluster may run there", claimed(), []pivot.Neighbour{paused, claimedAway}, pivot.PhaseFenced},
		"AwayClaimOther": {"the namespace has an endpoint of its own", claimed(), []pivot.Neighbour{runs, endpoint(false, true), claimedAway}, pivot.PhaseRunning},
		"OwnUngated":     {"a second move would not wait for the host", claimed(), []pivot.Neighbour{ungated}, pivot.PhaseWaitingForEndpoint},
		"UngatedPaused":  {"clusterctl no longer waits, and the move continues", claimed(), []pivot.Neighbour{ungatedPaused}, pivot.PhaseParked},
		"FreeUngated":    {"it would move with the namespace", free(), []pivot.Neighbour{runs, ungated}, pivot.PhaseWaitingForEndpoint},
		"FreeLeaves":     {"a Cluster was created during the move", stamped(3), []pivot.Neighbour{movesWith(3), other(false, true)}, pivot.PhaseParked},
		"FreeArrives":    {"another Cluster has moved here before", stamped(1), []pivot.Neighbour{movesWith(1), at(4)}, pivot.PhaseParked},
		"FreeOfBoth":     {"the paused Cluster may run in the other management cluster", stamped(3), []pivot.Neighbour{movesWith(3), at(4)}, pivot.PhaseParked},
		"FreeGivenUp":    {"all Clusters of its move run", stamped(3), []pivot.Neighbour{at(4), at(4)}, pivot.PhaseRunning},
		"FreeOfTheMove":  {"the epoch of a Cluster that runs is even", stamped(4), []pivot.Neighbour{movesWith(4), at(4)}, pivot.PhaseRunning},
		"FreeOfAnother":  {"it is not of this move", stamped(1), []pivot.Neighbour{movesWith(3), other(false, true)}, pivot.PhaseRunning},
		"FreeFirst":      {"its Cluster has not arrived, and the source may still have the host", arriving(1), []pivot.Neighbour{at(0)}, pivot.PhaseWaitingForEndpoint},
		"FreeFirstAgain": {"the paused Cluster is the copy of an earlier move", arriving(3), []pivot.Neighbour{movesWith(1), at(0)}, pivot.PhaseWaitingForEndpoint},
		"FreeFirstNew":   {"BMO of the source has not reconciled it, so it has no status", arriving(1, without(infrav1.StatusOriginAnnotation)), []pivot.Neighbour{at(0)}, pivot.PhaseWaitingForEndpoint},
		"FreeFirstUser":  {"the pause of a user does not change that", arriving(1, annotated(bmov1alpha1.PausedAnnotation, "maintenance")), []pivot.Neighbour{at(0)}, pivot.PhaseWaitingForEndpoint},
		"FreeSecond":     {"its Cluster has arrived and runs", arriving(1), []pivot.Neighbour{at(0), at(2)}, pivot.PhaseRunning},
		"FreeLate":       {"its Cluster has arrived before, and was paused and unpaused since", arriving(1), []pivot.Neighbour{at(4)}, pivot.PhaseRunning},
		"FreeAgain":      {"the next move was given up before block-move was removed", arriving(3), []pivot.Neighbour{{Name: "c", Verified: true, Epoch: 4, Arrival: 1}}, pivot.PhaseRunning},
		"FreeCAPM3":      {"CAPM3 sets no epoch", arriving(0), []pivot.Neighbour{at(0)}, pivot.PhaseRunning},
		"FreeNoEpoch":    {"pivot keep has removed its epoch", arriving(1, without(infrav1.MoveEpochAnnotation)), []pivot.Neighbour{at(0)}, pivot.PhaseRunning},
		"FreeOwn":        {"its status is from this object", arriving(1, givenUp), []pivot.Neighbour{at(0)}, pivot.PhaseRunning},
		"FreeUnpaused":   {"a user has removed the pause", arriving(1, without(bmov1alpha1.PausedAnnotation)), []pivot.Neighbour{at(0)}, pivot.PhaseRunning},
		"FreeNoCluster":  {"no Cluster has arrived", arriving(1), nil, pivot.PhaseWaitingForEndpoint},
		"Stranger":       {"a host with a foreign consumer has no Cluster, even with a label", stranger, []pivot.Neighbour{paused, other(false, true)}, pivot.PhaseRunning},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pivot.GoalOf(tc.host, tc.around); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestBusy(t *testing.T) {
	quiet := []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateNone, bmov1alpha1.StateUnmanaged, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable,
		bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned,
	}
	busy := []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile, bmov1alpha1.StateInspecting,
		bmov1alpha1.StatePreparing, bmov1alpha1.StateProvisioning, bmov1alpha1.StateDeprovisioning,
		bmov1alpha1.StatePoweringOffBeforeDelete, bmov1alpha1.StateDeleting, "of a later release",
	}
	host := claimed()
	for _, state := range quiet {
		if host.Status.Provisioning.State = state; pivot.Busy(host) != "" {
			t.Errorf("a host that is %q is quiet", state)
		}
	}
	for _, state := range busy {
		host.Status.Provisioning.State = state
		if pivot.Busy(host) == "" {
			t.Errorf("a host that is %q is busy", state)
		}
		stuck, detached := host.DeepCopy(), host.DeepCopy()
		stuck.Status.ErrorType = bmov1alpha1.RegistrationError
		detached.Status.OperationalStatus = bmov1alpha1.OperationalStatusDetached
		if pivot.Busy(stuck) != "" || pivot.Busy(detached) != "" {
			t.Errorf("a host that is stuck or detached in %q would be waited for in vain", state)
		}
	}
	host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusServicing
	if pivot.Busy(host) == "" {
		t.Error("an interrupted update may leave half of the firmware")
	}
	if host.Status.OperationalStatus = "of a later release"; pivot.Busy(host) == "" {
		t.Error("an unknown operational status may be an operation of BMO")
	}
	now := metav1.Now()
	host.Status.Provisioning.State, host.DeletionTimestamp = bmov1alpha1.StateAvailable, &now
	host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
	if pivot.Busy(host) == "" {
		t.Error("a move would lose the deletion, so it waits")
	}
}

// TestNudgeBeside tests a host of a cluster without an Ironic endpoint, in a namespace with one.
func TestNudgeBeside(t *testing.T) {
	beside := pivot.Neighbour{
		Name: "other", Verified: true, Endpoint: true,
		Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"},
	}
	host, around := claimed(), []pivot.Neighbour{runs, beside}
	step := pivot.PlanHost(host, around, pivot.HostFacts{})
	changed := pivot.Apply(step, host, around)
	if told := changed.Annotations[infrav1.IronicHolderAnnotation]; step != pivot.Nudge || told != "ControlPlane/n" {
		t.Errorf("got %s, and the host is told of %q", step, told)
	}
	if again := pivot.PlanHost(changed, around, pivot.HostFacts{}); again != pivot.Leave {
		t.Errorf("after it, the step is %s", again)
	}
}

// TestErrorsThatCannotBeCarried tests errors that BMO refuses in the annotation. A host with such an error is parked
// without it.
func TestErrorsThatCannotBeCarried(t *testing.T) {
	for _, problem := range []bmov1alpha1.ErrorType{
		bmov1alpha1.ServicingError, bmov1alpha1.DetachError, bmov1alpha1.PowerManagementError,
	} {
		host := claimed()
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		host.Status.OperationalStatus, host.Status.ErrorType = bmov1alpha1.OperationalStatusError, problem
		host.Status.ErrorMessage, host.Status.ErrorCount = "it failed", 3
		record(t, host)
		var kept bmov1alpha1.BareMetalHostStatus
		if err := json.Unmarshal([]byte(host.Annotations[bmov1alpha1.StatusAnnotation]), &kept); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(bmov1alpha1.ErrorTypeAllowed, string(kept.ErrorType)) ||
			!slices.Contains(bmov1alpha1.OperationalStatusAllowed, string(kept.OperationalStatus)) {
			t.Errorf("%s: BMO refuses %q with error %q", problem, kept.OperationalStatus, kept.ErrorType)
		}
		if carried := kept.ErrorMessage != ""; carried != (kept.ErrorType == problem) {
			t.Errorf("%s: the message %q is left", problem, kept.ErrorMessage)
		}
		if !pivot.Parked(host) {
			t.Errorf("%s: the host never gets parked", problem)
		}
	}
}

func TestParked(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(host *bmov1alpha1.BareMetalHost)
		want   bool
	}{
		"Parked": {"the status is unchanged since the pause", func(*bmov1alpha1.BareMetalHost) {}, true},
		"State": {"the provisioning state has changed", func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
		}, false},
		"Later": {"a write that had begun before the pause", func(host *bmov1alpha1.BareMetalHost) {
			later := metav1.NewTime(seenAt.Add(time.Second))
			host.Status.LastUpdated = &later
		}, false},
		"Error": {"a new error", func(host *bmov1alpha1.BareMetalHost) {
			host.Status.ErrorType = bmov1alpha1.PowerManagementError
		}, false},
		"Damaged": {"the annotation cannot be parsed", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[bmov1alpha1.StatusAnnotation] = "{"
		}, false},
		"Missing": {"the annotation does not exist", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.StatusAnnotation)
		}, false},
		"Running": {"not paused", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		}, false},
		"Arrived": {"after a move only the annotation has the status, and an empty status must not replace it",
			func(host *bmov1alpha1.BareMetalHost) { host.Status = bmov1alpha1.BareMetalHostStatus{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			host.Annotations[bmov1alpha1.PausedAnnotation] = "somebody"
			record(t, host)
			tc.change(host)
			if got := pivot.Parked(host); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestNudge(t *testing.T) {
	with := func(kind infrav1.HolderKind) []pivot.Neighbour {
		return []pivot.Neighbour{{
			Name: "c", Verified: true, Endpoint: true, Holder: &infrav1.IronicHolder{Kind: kind, Name: "n"},
		}}
	}
	unknown := pivot.Neighbour{Name: "b", Verified: true, Endpoint: true}
	for name, tc := range map[string]struct {
		reason string
		told   string
		around []pivot.Neighbour
		want   pivot.Step
	}{
		"First":     {"the first holder is the Ironic of the management cluster", "", with(infrav1.HolderManagement), pivot.Leave},
		"Takeover":  {"the Ironic of a node has not registered the host", "", with(infrav1.HolderControlPlane), pivot.Nudge},
		"Same":      {"the Nudge for this holder is done", "ControlPlane/n", with(infrav1.HolderControlPlane), pivot.Leave},
		"Next":      {"another node holds the VIP", "ControlPlane/o", with(infrav1.HolderControlPlane), pivot.Nudge},
		"Back":      {"a management cluster holds the VIP again", "ControlPlane/n", with(infrav1.HolderManagement), pivot.Nudge},
		"Nobody":    {"no Ironic answers", "ControlPlane/o", with(infrav1.HolderNone), pivot.Leave},
		"Foreign":   {"the holder belongs to another cluster", "ControlPlane/o", with(infrav1.HolderForeign), pivot.Leave},
		"NoHolder":  {"there is no endpoint", "", []pivot.Neighbour{runs}, pivot.Leave},
		"FreeHosts": {"a free host depends on it too", "", with(infrav1.HolderControlPlane), pivot.Nudge},
		"FreeOfTwo": {"the first known holder counts", "", append([]pivot.Neighbour{unknown}, with(infrav1.HolderControlPlane)...), pivot.Nudge},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			if strings.HasPrefix(name, "Free") {
				host = free()
			}
			if tc.told != "" {
				host.Annotations[infrav1.IronicHolderAnnotation] = tc.told
			}
			got := pivot.PlanHost(host, tc.around, pivot.HostFacts{Settled: true})
			if got != tc.want {
				t.Fatalf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			changed := pivot.Apply(got, host, tc.around)
			if again := pivot.PlanHost(changed, tc.around, pivot.HostFacts{Settled: true}); again != pivot.Leave {
				t.Errorf("%s: after it, the step is %s", tc.reason, again)
			}
		})
	}
}

// TestForget tests hosts with the annotation of a Nudge whose cluster has no Ironic endpoint.
func TestForget(t *testing.T) {
	other := pivot.Neighbour{Name: "other", Verified: true, Endpoint: true}
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		told   bool
		pause  string
		around []pivot.Neighbour
		want   pivot.Step
	}{
		"Last":      {"no Cluster is left", free(), true, "", nil, pivot.Forget},
		"NeverTold": {"the host has no annotation", free(), false, "", nil, pivot.Leave},
		"FreeOther": {"a free host depends on every endpoint", free(), true, "", []pivot.Neighbour{runs, other}, pivot.Leave},
		"Claimed":   {"no Cluster has an endpoint", claimed(), true, "", []pivot.Neighbour{runs}, pivot.Forget},
		"Beside":    {"a BMO uses one Ironic", claimed(), true, "", []pivot.Neighbour{runs, other}, pivot.Leave},
		"Unknown": {"the Metal3Cluster may arrive later", claimed(), true, "",
			[]pivot.Neighbour{{Name: "c", Endpoint: true}}, pivot.Leave},
		"Deleted": {"the Metal3Cluster was deleted before", claimed(), true, "", []pivot.Neighbour{unverified}, pivot.Forget},
		"Moving":  {"a move pauses the host first", claimed(), true, "", []pivot.Neighbour{{Name: "c", Paused: true}}, pivot.Pause},
		"Arrived": {"the host arrived before its Cluster", claimed(), true, infrav1.HostPausedByProvider, nil, pivot.Leave},
		"ByUser":  {"a user paused the host", claimed(), true, "me", []pivot.Neighbour{runs}, pivot.Leave},
		"Resumed": {"the pause ends first", claimed(), true, infrav1.HostPausedByProvider, []pivot.Neighbour{runs}, pivot.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.told {
				tc.host.Annotations[infrav1.IronicHolderAnnotation] = "ControlPlane/n"
			}
			if tc.pause != "" {
				tc.host.Annotations[bmov1alpha1.PausedAnnotation] = tc.pause
			}
			got := pivot.PlanHost(tc.host, tc.around, pivot.HostFacts{})
			if got != tc.want {
				t.Fatalf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			changed := pivot.Apply(got, tc.host, nil)
			if again := pivot.PlanHost(changed, tc.around, pivot.HostFacts{}); got == pivot.Forget && again != pivot.Leave {
				t.Errorf("after it, the step is %s", again)
			}
			if _, told := changed.Annotations[infrav1.IronicHolderAnnotation]; told != (tc.told && got != pivot.Forget) {
				t.Errorf("after %s the host tells of a holder: %v", got, told)
			}
		})
	}
}

// TestPlanHostForgetsAMove tests hosts with annotations of a move that the provider does not resume, because a user had
// paused them.
func TestPlanHostForgetsAMove(t *testing.T) {
	origin, epoch := annotated(infrav1.StatusOriginAnnotation, "there"), annotated(infrav1.MoveEpochAnnotation, "1")
	ironic := annotated(infrav1.IronicClusterIDAnnotation, "c2")
	all := []func(*bmov1alpha1.BareMetalHost){origin, epoch, ironic}
	with := func(host *bmov1alpha1.BareMetalHost, edits ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		for _, edit := range edits {
			edit(host)
		}
		return host
	}
	told := annotated(infrav1.IronicHolderAnnotation, "ControlPlane/n")
	held := pivot.Neighbour{
		Name: "c", Verified: true, Endpoint: true, Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"},
	}
	movesWith := func(epoch pivot.Epoch, isPaused bool) pivot.Neighbour {
		return pivot.Neighbour{Name: "d", Verified: true, Paused: isPaused, Ungated: true, Epoch: epoch}
	}
	ended := pivot.Neighbour{Name: "c", Verified: true, Epoch: 2, Arrival: 1}
	for name, tc := range map[string]struct {
		reason string
		host   *bmov1alpha1.BareMetalHost
		around []pivot.Neighbour
		want   pivot.Step
	}{
		"Origin":     {"its Cluster runs", with(claimed(), origin), []pivot.Neighbour{runs}, pivot.Forget},
		"Epoch":      {"it had no status to record", with(claimed(), epoch), []pivot.Neighbour{runs}, pivot.Forget},
		"Ironic":     {"the Ironic of another namespace served it", with(claimed(), ironic), []pivot.Neighbour{runs}, pivot.Forget},
		"All":        {"its Cluster runs", with(claimed(), all...), []pivot.Neighbour{ended}, pivot.Forget},
		"Free":       {"the Cluster of its move runs", with(free(), all...), []pivot.Neighbour{ended}, pivot.Forget},
		"KeepsTold":  {"its Ironic has not changed", with(claimed(), append(all, told)...), []pivot.Neighbour{held}, pivot.Forget},
		"NudgeFirst": {"the Ironic that took over comes first", with(claimed(), all...), []pivot.Neighbour{held}, pivot.Nudge},
		"ToldToo":    {"no Ironic endpoint is left either", with(claimed(), append(all, told)...), []pivot.Neighbour{runs}, pivot.Forget},
		"None":       {"it has none of them", claimed(), []pivot.Neighbour{runs}, pivot.Leave},
		"Status":     {"BMO has not restored its status", with(claimed(), append(all, annotated(bmov1alpha1.StatusAnnotation, "{}"))...), []pivot.Neighbour{runs}, pivot.Leave},
		"ByUser":     {"the pause of the user has not ended", with(claimed(), origin, epoch, annotated(bmov1alpha1.PausedAnnotation, "me")), []pivot.Neighbour{runs}, pivot.Leave},
		"Unverified": {"another Ironic may answer", with(claimed(), all...), []pivot.Neighbour{unverified}, pivot.Leave},
		"Ungated":    {"the manager has not ended the move", with(claimed(), all...), []pivot.Neighbour{ungated}, pivot.Leave},
		"Missing":    {"its Cluster has not arrived", with(claimed(), all...), []pivot.Neighbour{{Name: "d", Verified: true}}, pivot.Leave},
		"First":      {"the Cluster that it moves with has not arrived", with(free(), all...), []pivot.Neighbour{runs}, pivot.Leave},
		"Copying":    {"the gate is open", with(free(), all...), []pivot.Neighbour{movesWith(1, true)}, pivot.Pause},
		"OneRuns":    {"another Cluster of its move is paused", with(free(), all...), []pivot.Neighbour{ended, movesWith(1, true)}, pivot.Pause},
		"Leaving":    {"clusterctl deletes it", with(claimed(), append(all, annotated(infrav1.DeleteForMoveAnnotation, ""))...), []pivot.Neighbour{runs}, pivot.Leave},
	} {
		t.Run(name, func(t *testing.T) {
			tc.host.UID = "here"
			got := pivot.PlanHost(tc.host, tc.around, pivot.HostFacts{Settled: true})
			if got != tc.want {
				t.Fatalf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			if got != pivot.Forget {
				return
			}
			changed := pivot.Apply(got, tc.host, tc.around)
			want := map[string]string{}
			if name == "KeepsTold" {
				want[infrav1.IronicHolderAnnotation] = "ControlPlane/n"
			}
			if diff := cmp.Diff(want, changed.Annotations); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := pivot.PlanHost(changed, tc.around, pivot.HostFacts{Settled: true}); again != pivot.Leave {
				t.Errorf("after it, the step is %s", again)
			}
		})
	}
	waits := []pivot.Neighbour{unverified}
	changed := pivot.Apply(pivot.Forget, with(claimed(), append(all, told)...), waits).Annotations
	if _, kept := changed[infrav1.MoveEpochAnnotation]; !kept || changed[infrav1.IronicHolderAnnotation] != "" {
		t.Errorf("the endpoint is not verified, and the host has %v", changed)
	}
}

// TestMarkProvisioned tests hosts that lose their Ironic while they are provisioned.
func TestMarkProvisioned(t *testing.T) {
	taken := []pivot.Neighbour{{
		Name: "c", Verified: true, Endpoint: true,
		Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"},
	}}
	for name, tc := range map[string]struct {
		reason string
		state  bmov1alpha1.ProvisioningState
		joined bool
		told   string
		want   pivot.Step
	}{
		"Joined":         {"BMO would wipe the system that runs", bmov1alpha1.StateProvisioning, true, "", pivot.MarkProvisioned},
		"NotJoined":      {"nothing runs on the host, so BMO provisions it again", bmov1alpha1.StateProvisioning, false, "", pivot.Nudge},
		"SameIronic":     {"the same Ironic continues", bmov1alpha1.StateProvisioning, true, "ControlPlane/n", pivot.Leave},
		"Deprovisioning": {"BMO is wiping the host", bmov1alpha1.StateDeprovisioning, true, "", pivot.Nudge},
		"Provisioned":    {"it is adopted as it is", bmov1alpha1.StateProvisioned, true, "", pivot.Nudge},
	} {
		host := claimed()
		host.Status.Provisioning.State = tc.state
		if tc.told != "" {
			host.Annotations[infrav1.IronicHolderAnnotation] = tc.told
		}
		if got := pivot.PlanHost(host, taken, pivot.HostFacts{Joined: tc.joined}); got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", name, tc.reason, got, tc.want)
		}
	}
}

// TestMarkProvisionedOfBroughtStatus tests a host whose provisioning failed, and whose Node has joined.
func TestMarkProvisionedOfBroughtStatus(t *testing.T) {
	host := claimed()
	host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
	host.Status.Provisioning.State, host.Status.PoweredOn = bmov1alpha1.StateProvisioning, true
	host.Status.OperationalStatus, host.Status.ErrorType = bmov1alpha1.OperationalStatusError, bmov1alpha1.ProvisioningError
	host.Status.ErrorMessage, host.Status.ErrorCount = "timeout", 3
	record(t, host)
	want := host.Status
	want.Provisioning.State, want.Provisioning.Image = bmov1alpha1.StateProvisioned, *host.Spec.Image
	want.OperationalStatus, want.ErrorType, want.ErrorMessage, want.ErrorCount = bmov1alpha1.OperationalStatusOK, "", "", 0
	host.Status = bmov1alpha1.BareMetalHostStatus{}
	var got bmov1alpha1.BareMetalHostStatus
	brought := pivot.Apply(pivot.MarkProvisioned, host, nil).Annotations[bmov1alpha1.StatusAnnotation]
	if err := json.Unmarshal([]byte(brought), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	host.Annotations[bmov1alpha1.StatusAnnotation] = "{"
	if got := pivot.Apply(pivot.MarkProvisioned, host, nil).Annotations[bmov1alpha1.StatusAnnotation]; got != "{" {
		t.Errorf("got %s of what nobody can read", got)
	}
}

// TestMarkProvisionedOfRestoredStatus tests a host that came back onto a leftover, with an unfinished status that was
// restored already. The mark must last, so that the host is resumed.
func TestMarkProvisionedOfRestoredStatus(t *testing.T) {
	around := []pivot.Neighbour{{
		Name: "c", Verified: true, Endpoint: true,
		Holder: &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"},
	}}
	host := claimed()
	host.UID, host.Spec.Image = "here", &bmov1alpha1.Image{URL: "http://images.example/node"}
	host.Status.Provisioning.State, host.Status.LastUpdated = bmov1alpha1.StateProvisioning, ptr.To(metav1.Unix(1_700_000_000, 0))
	host.Status.OperationalStatus, host.Status.ErrorType = bmov1alpha1.OperationalStatusError, bmov1alpha1.ProvisioningError
	record(t, host)
	host.Annotations[infrav1.StatusOriginAnnotation] = "there"
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	var steps []pivot.Step
	for len(steps) < 6 && !slices.Contains(steps, pivot.Resume) {
		step := pivot.PlanHost(host, around, pivot.HostFacts{Joined: true, Settled: true})
		steps = append(steps, step)
		host = pivot.Apply(step, host, around)
		if step == pivot.Restore {
			host.Status = bmov1alpha1.BareMetalHostStatus{}
			if err := json.Unmarshal([]byte(host.Annotations[bmov1alpha1.StatusAnnotation]), &host.Status); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Contains(steps, pivot.Resume) || host.Status.Provisioning.State != bmov1alpha1.StateProvisioned {
		t.Errorf("got %v, and the host is %s", steps, host.Status.Provisioning.State)
	}
}

// TestLostStatus tests hosts without their status.
func TestLostStatus(t *testing.T) {
	running := []pivot.Neighbour{{Name: "c", Verified: true}}
	for name, tc := range map[string]struct {
		reason string
		edit   func(*bmov1alpha1.BareMetalHost)
		joined bool
		want   pivot.Step
	}{
		"Joined":    {"BMO would write the image again", func(*bmov1alpha1.BareMetalHost) {}, true, pivot.MarkProvisioned},
		"NotJoined": {"a system may run on the host", func(*bmov1alpha1.BareMetalHost) {}, false, pivot.Await},
		"CustomDeploy": {"a system of a custom deploy method may run on the host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.Image, host.Spec.CustomDeploy = nil, &bmov1alpha1.CustomDeploy{Method: "m"}
		}, false, pivot.Await},
		"Recorded": {"the annotation has the status", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[bmov1alpha1.StatusAnnotation] = "{}"
		}, true, pivot.Resume},
		"HasStatus": {"it has its status", func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		}, false, pivot.Resume},
		"NoImage": {"nothing runs on the host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = nil }, true, pivot.Resume},
		"External": {"BMO deploys nothing there", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.ExternallyProvisioned = true
		}, false, pivot.Resume},
		"New": {"no BMO has managed the host", func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil }, false, pivot.Resume},
		"NotPaused": {"BMO manages the host already", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		}, true, pivot.Leave},
	} {
		host := claimed()
		host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
		host.Status = bmov1alpha1.BareMetalHostStatus{}
		host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		tc.edit(host)
		if got := pivot.PlanHost(host, running, pivot.HostFacts{Joined: tc.joined}); got != tc.want {
			t.Errorf("%s: %s: got %s, want %s", name, tc.reason, got, tc.want)
		}
	}
}

// TestMoveAndBack moves one host, and aborts the move of a second host.
func TestMoveAndBack(t *testing.T) {
	host := claimed()
	walk := func(around pivot.Neighbour, want ...pivot.Step) {
		t.Helper()
		for _, step := range want {
			got := pivot.PlanHost(host, []pivot.Neighbour{around}, pivot.HostFacts{Settled: true})
			if got != step {
				t.Fatalf("got %s, want %s for %v", got, step, host.Annotations)
			}
			if step == pivot.Record {
				record(t, host)
				continue
			}
			host = pivot.Apply(step, host, nil)
		}
	}
	walk(paused, pivot.Pause, pivot.Record, pivot.Leave)
	walk(runs, pivot.Resume, pivot.Leave)
	walk(paused, pivot.Pause, pivot.Leave)
	host.Status = bmov1alpha1.BareMetalHostStatus{}
	walk(paused, pivot.Leave)
	walk(unverified, pivot.Leave)
	walk(runs, pivot.Resume, pivot.Leave)
	if host.Annotations[bmov1alpha1.StatusAnnotation] == "" {
		t.Error("the annotation that BMO restores the status from is gone")
	}
}

func TestObstacles(t *testing.T) {
	busy, blocked, owned, frozen := claimed(), free(), free(), claimed()
	busy.Name, blocked.Name, owned.Name, frozen.Name = "busy", "blocked", "owned", "frozen"
	busy.Status.Provisioning.State = bmov1alpha1.StateInspecting
	frozen.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
	frozen.Annotations[bmov1alpha1.PausedAnnotation] = "me"
	blocked.Annotations[infrav1.BlockMoveAnnotation] = ""
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "example.org/v1", Kind: "Rack", Name: "r1"},
		{APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Name: "m"},
	}
	quiet := pivot.MoveFacts{
		Hosts: []*bmov1alpha1.BareMetalHost{claimed(), free()}, Naming: []metav1.Object{consumer()},
	}
	if got := pivot.Obstacles(quiet); len(got) != 0 {
		t.Errorf("nothing is in the way, and it says %q", got)
	}
	young := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine-1"}}
	facts := pivot.MoveFacts{
		Hosts:         []*bmov1alpha1.BareMetalHost{claimed(), busy, blocked, owned, frozen},
		Machines:      []*clusterv1.Machine{young},
		Naming:        []metav1.Object{consumer()},
		Remediations:  []string{"remediation-1"},
		MissingLabels: []string{"baremetalhosts.metal3.io: label"},
		EndpointFacts: pivot.EndpointFacts{
			Endpoint: pivot.Judge(pivot.Cluster{ClusterID: "c1", Address: "192.0.2.2:6385"},
				pivot.Sighting{Answer: pivot.Answers, Conductors: []string{"c2-x"}}).Outcome,
			BareNodes:    []string{"node-1"},
			NodesUnknown: "no connection",
		},
	}
	install(&facts)
	got := pivot.Obstacles(facts)
	for _, want := range []string{
		"Ironic endpoint: Conductor c2-x answers", "no connection", "node node-1 does not run", "baremetalhosts.metal3.io: label is missing",
		"Machine machine-1 has no node", "Metal3Remediation remediation-1", "host busy is inspecting",
		"host blocked has annotation " + infrav1.BlockMoveAnnotation, "host owned is owned by Rack r1",
		"host frozen is paused in the middle of deprovisioning",
	} {
		if !strings.Contains(strings.Join(texts(got), "\n"), want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if len(got) != 10 {
		t.Errorf("got %d obstacles, want 10: %q", len(got), got)
	}
	if line := pivot.Enumerate(got); !strings.HasSuffix(line, "; and 2 more") {
		t.Errorf("got %q", line)
	}
}

func TestMayLeaveHosts(t *testing.T) {
	hosts := make([]*bmov1alpha1.BareMetalHost, 0, 5)
	for i := range 5 {
		host := claimed()
		host.Name = fmt.Sprintf("host-%d", i)
		hosts = append(hosts, host)
	}
	hosts[0].Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	record(t, hosts[0])
	hosts[1].Status.Provisioning.State = bmov1alpha1.StateProvisioning
	hosts[3].Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
	hosts[4].Annotations = map[string]string{bmov1alpha1.PausedAnnotation: infrav1.HostPausedByProvider}
	hosts[4].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	facts := pivot.MoveFacts{Hosts: hosts, Around: []pivot.Neighbour{paused}, Naming: []metav1.Object{consumer()}}
	_, waits := pivot.MayLeave(facts)
	got := strings.Join(texts(waits), "\n")
	if want := "host host-1 is provisioning: wait until it is done\nhost host-2 is being paused: wait until it is paused\n" +
		"host host-4 is being deleted, and kept as it is while its Cluster is paused: unpause the Cluster, so that BMO " +
		"wipes and deletes the host"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	facts.Hosts, facts.Around = []*bmov1alpha1.BareMetalHost{hosts[0], hosts[2]}, []pivot.Neighbour{runs}
	if _, waits := pivot.MayLeave(facts); len(waits) != 0 {
		t.Errorf("nobody is parked while the Cluster runs, and it says %q", waits)
	}
}

func TestWaveDelay(t *testing.T) {
	const pause = 250 * time.Millisecond
	if pivot.WaveDelay(0) != 0 || pivot.WaveDelay(99) != 0 || pivot.WaveDelay(100) != pause ||
		pivot.WaveDelay(299) != 2*pause {
		t.Errorf("a hundred at once, the next hundred %s later", pause)
	}
}
