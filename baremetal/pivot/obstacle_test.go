package pivot_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// texts returns obstacles as users read them.
func texts(obstacles []pivot.Obstacle) []string {
	var all []string
	for _, each := range obstacles {
		all = append(all, each.String())
	}
	return all
}

func TestObstacle(t *testing.T) {
	host := &metav1.ObjectMeta{Namespace: "metal3", Name: "host-0"}
	got := pivot.About("BareMetalHost", host).Blocks(pivot.CodeHostBusy, "wait until it is done", "host %s is busy", host.Name)
	want := pivot.Obstacle{
		Code: "HostBusy", Kind: "BareMetalHost", Namespace: "metal3", Name: "host-0", Message: "host host-0 is busy",
		Remedy: "wait until it is done",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if line := got.String(); line != "host host-0 is busy: wait until it is done" {
		t.Errorf("got %q", line)
	}
	quoting := pivot.AboutNothing().Blocks(pivot.CodeEndpointNotReady, "", "nobody answers: wait")
	if line := quoting.String(); line != "nobody answers: wait" {
		t.Errorf("got %q", line)
	}
}

func TestCodes(t *testing.T) {
	var codes []pivot.Code
	for _, each := range pivot.Codes() {
		codes = append(codes, each.Code)
		if !strings.HasSuffix(each.Means, ".") {
			t.Errorf("%s: %q is no sentence", each.Code, each.Means)
		}
	}
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("not in the order of the alphabet, or not unique: %q", codes)
	}
}

// TestPasses lists the obstacles that end without an administrator.
func TestPasses(t *testing.T) {
	want := []pivot.Code{
		"BeingDeleted", "ControlPlaneNotInitialized", "ControlPlaneScaling", "GateMissing", "HostBusy", "HostParking",
		"InfrastructureNotProvisioned", "ManagerNotReady", "NodeMissing", "PauseUntried", "RemediationRunning",
	}
	var got []pivot.Code
	for _, each := range pivot.Codes() {
		if each.Code.Passes() {
			got = append(got, each.Code)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
