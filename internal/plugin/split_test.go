package plugin

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// removing is a dry run of a command that removes leftovers in the source.
func removing(source, target *scope) *recovery {
	for _, side := range []*scope{source, target} {
		side.put("Cluster").put("Machine").put("Metal3Cluster").put("BareMetalHost")
		side.identify()
	}
	return &recovery{
		where: sides{namespace: build.DefaultNamespace}, dryRun: true, left: source, arrived: target,
		source:   &cluster{client: fake.NewClientBuilder().WithScheme(scheme()).Build(), side: sourceSide},
		progress: newProgress(&bytes.Buffer{}), done: outcome{Course: assess(source, target, "an object").Course},
	}
}

func codesIn(found []obstacle) []pivot.Code {
	var codes []pivot.Code
	for _, each := range found {
		codes = append(codes, each.Code)
	}
	return codes
}

func TestSweep(t *testing.T) {
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		want           []string
		refused        []pivot.Code
	}{
		"Leftover": {
			reason: "the target runs", source: copied(true, "3", "m"), target: copied(false, "4", "m"),
			want: []string{"Removed 3 objects in the source"},
		},
		"Copied": {
			reason: "both are of one move", source: copied(true, "3", "m"), target: copied(true, "3", "m"),
			want: []string{"Removed 3 objects in the source"},
		},
		"Newer": {
			reason: "the source managed the Cluster last", source: copied(true, "3", "m"), target: copied(true, "1", "m"),
			refused: []pivot.Code{pivot.CodeMoveUnclear},
		},
		"Fenced": {
			reason: "the target claimed it first", source: superseded(copied(true, "7", "m"), ""), target: copied(false, "6", "m"),
			want: []string{"Removed 3 objects in the source"},
		},
		"SecretOfOthers": {
			reason: "clusterctl does not move it", source: copied(true, "3").put("Secret", belongingTo("x", "ExternalSecret", "x")),
			target: copied(true, "3"), want: []string{"Removed 2 objects in the source"},
		},
		"NewerOfTwo": {
			reason: "the same for another Cluster", source: copied(true, "3", "m").beside(true, "5"),
			target: copied(false, "4", "m").beside(true, "3"), refused: []pivot.Code{pivot.CodeMoveUnclear},
		},
	} {
		c := removing(tc.source, tc.target)
		left, err := c.sweepable(lateHosts{})
		if err == nil {
			err = c.remove(t.Context(), c.source, left)
		}
		if err != nil || !slices.Equal(tc.want, c.done.Actions) || !slices.Equal(tc.refused, codesIn(c.done.Refusals)) {
			t.Errorf("%s: %s: got %v, %v, %v", name, tc.reason, c.done.Actions, c.done.Refusals, err)
		}
	}
}

// TestCopies expects only the copies of a move, and no objects of the target with the same names.
func TestCopies(t *testing.T) {
	as := func(*bmov1alpha1.BareMetalHost) {}
	anotherMachine := func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.BMC.Address, host.Spec.BootMACAddress = "redfish://192.0.2.77/redfish/v1/Systems/1", "00:00:5e:00:53:77"
	}
	credentials := func() *metav1.PartialObjectMetadata { return belongingTo("host-bmc", "BareMetalHost", "host") }
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		want           []string
	}{
		"Copied": {
			"clusterctl has copied it", copied(true, "3", "m"), copied(true, "3", "m"),
			[]string{"Machine m", "Metal3Cluster c", "Cluster c"},
		},
		"OfOther": {
			"another Cluster of the target has a Machine of this name", copied(true, "3").put("Machine", named("m", "c")),
			nothing().put("Machine", named("m", "other")), nil,
		},
		"OfOtherOwned": {
			"the Machine of another Cluster owns it", copied(true, "3", "m").put("Secret", belongingTo("data", "Machine", "m")),
			nothing().put("Machine", named("m", "other")).put("Secret", belongingTo("data", "Machine", "m")), nil,
		},
		"Released": {
			"a host of the source was released since", copied(true, "3").put("BareMetalHost", labelledSecret("host")),
			copied(true, "3").put("BareMetalHost", named("host", "c")),
			[]string{"BareMetalHost host", "Metal3Cluster c", "Cluster c"},
		},
		"Host": {
			"clusterctl has copied the host", copied(true, "3").leftHost("host", as).put("Secret", credentials()),
			copied(true, "3").leftHost("host", as).put("Secret", credentials()),
			[]string{"Secret host-bmc", "BareMetalHost host", "Metal3Cluster c", "Cluster c"},
		},
		"OtherHost": {
			"the target has a host of this name with another BMC", copied(true, "3").leftHost("host", as).put("Secret", credentials()),
			copied(true, "3").leftHost("host", anotherMachine).put("BareMetalHost", named("host", "")).
				put("Secret", credentials()),
			[]string{"Metal3Cluster c", "Cluster c"},
		},
		"OtherHostCredentials": {
			"a host of this name with another BMC names the Secret", copied(true, "3").leftHost("host", as).
				put("Secret", labelledSecret("host-bmc")),
			copied(true, "3").leftHost("host", anotherMachine).put("BareMetalHost", named("host", "")).
				put("Secret", labelledSecret("host-bmc")),
			[]string{"Metal3Cluster c", "Cluster c"},
		},
	} {
		c := removing(tc.source, tc.target)
		var got []string
		for _, each := range c.copies() {
			got = append(got, each.String())
		}
		if !slices.Equal(tc.want, got) {
			t.Errorf("%s: %s: got %v", name, tc.reason, got)
		}
	}
}

// TestSweepRuns expects a remedy that does not refuse.
func TestSweepRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		want           string
	}{
		"Both": {"it runs on both sides", copied(false, "2"), copied(false, "4"), "pause it with pivot fence"},
		"Source": {
			"the source manages it", copied(true, "3").beside(false, "2"), copied(false, "4"),
			"remove the leftovers of the other Clusters with pivot clean; then move it with pivot run, or leave it in the source",
		},
	} {
		c := removing(tc.source, tc.target)
		_, err := c.sweepable(lateHosts{})
		if err != nil || len(c.done.Refusals) != 1 || c.done.Refusals[0].Remedy != tc.want {
			t.Errorf("%s: %s: got %v, %v", name, tc.reason, c.done.Refusals, err)
		}
	}
}

// TestClean removes the rest of a Cluster that the target manages.
func TestClean(t *testing.T) {
	as := func(*bmov1alpha1.BareMetalHost) {}
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		want           string
	}{
		"WithoutInfra": {
			"clusterctl has deleted the Metal3Cluster", withoutInfra(copied(true, "3")), copied(false, "4", "m"),
			"Removed 2 objects in the source",
		},
		"OtherRuns": {
			"the source manages the other one", copied(true, "3").beside(false, "2"), copied(false, "4", "m"),
			"Removed 3 objects in the source",
		},
		"Fenced": {
			"the target claimed it first", superseded(copied(true, "7"), ""), copied(false, "6", "m"), "Removed 3 objects in the source",
		},
	} {
		c := removing(tc.source.leftHost("host", as), tc.target.leftHost("host", as))
		err := c.clean(t.Context())
		if err != nil || !c.done.Done || !slices.Equal([]string{tc.want}, c.done.Actions) {
			t.Errorf("%s: %s: got %+v, %v", name, tc.reason, c.done, err)
		}
	}
}

// TestCleanDivided removes the leftovers of the Clusters that the target manages, and keeps the others in the source.
func TestCleanDivided(t *testing.T) {
	as := func(*bmov1alpha1.BareMetalHost) {}
	both := belongingTo("both", "BareMetalHost", "c-0")
	both.OwnerReferences = append(both.OwnerReferences, belongingTo("", "BareMetalHost", "d-0").OwnerReferences...)
	with := func(side *scope) *scope {
		return side.leftHost("c-0", as).put("Machine", named("n", "d")).
			put("BareMetalHost", named("c-0", "c"), named("d-0", "d"), named("free", "")).
			put("Secret", belongingTo("c-0-bmc", "BareMetalHost", "c-0"), belongingTo("d-0-bmc", "BareMetalHost", "d-0"), both)
	}
	source, target := with(copied(true, "1", "m").beside(false, "2")), with(copied(false, "2", "m").beside(true, "1"))
	c := removing(source, target)
	for _, doubt := range assess(source, target, "an object").Doubts {
		want := "the target manages Cluster c, and the source manages Cluster d, or managed it last: remove the leftovers of " +
			"Cluster c in the source with pivot clean"
		if !strings.HasPrefix(doubt.String(), want) {
			t.Errorf("got the doubt %s", doubt)
		}
		if err := c.refuse("", doubt); err != nil {
			t.Fatal(err)
		}
	}
	err := c.clean(t.Context())
	if want := []string{"Removed 5 objects in the source"}; err != nil || !c.done.Done || !slices.Equal(want, c.done.Actions) {
		t.Errorf("got %+v, %v", c.done, err)
	}
	var got []string
	for _, each := range removals(c.left, c.arrived) {
		got = append(got, each.String())
	}
	want := []string{"Secret c-0-bmc", "BareMetalHost c-0", "Machine m", "Metal3Cluster c", "Cluster c"}
	if !slices.Equal(want, got) {
		t.Errorf("got %v", got)
	}
	if after := assess(source.of([]string{"d"}), target, "an object"); after.Course != courseGivenUp {
		t.Errorf("after clean: got %+v", after)
	}
}
