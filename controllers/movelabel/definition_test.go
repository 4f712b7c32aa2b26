package movelabel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	discover  = "clusterctl.cluster.x-k8s.io"
	move      = "clusterctl.cluster.x-k8s.io/move"
	hierarchy = "clusterctl.cluster.x-k8s.io/move-hierarchy"
)

func TestMissing(t *testing.T) {
	cases := map[string]struct {
		reason     string
		definition string
		labels     map[string]string
		want       []string
	}{
		"Hosts": {
			"a host moves with the objects that it owns", "baremetalhosts.metal3.io", nil,
			[]string{discover, move, hierarchy},
		},
		"Owned": {
			"the owner moves the object, once clusterctl discovers it", "hostfirmwaresettings.metal3.io", nil, []string{discover},
		},
		"OwnedNowAndThen": {
			"an object without owner would stay behind", "hardwaredata.metal3.io", nil, []string{discover, move},
		},
		"Alone": {
			"nothing owns a subscription", "bmceventsubscriptions.metal3.io", nil, []string{discover, move},
		},
		"Some": {
			"existing labels are not written again", "baremetalhosts.metal3.io",
			map[string]string{"app": "operator", move: ""}, []string{discover, hierarchy},
		},
		"AnyValue": {
			"clusterctl compares only the key", "hardwaredata.metal3.io",
			map[string]string{discover: "no", move: "false"}, nil,
		},
		"Complete": {
			"nothing to do", "firmwareschemas.metal3.io", map[string]string{discover: ""}, nil,
		},
		"OwnedLate": {
			"BMO owns it late, or never", "hostupdatepolicies.metal3.io", map[string]string{discover: ""}, []string{move},
		},
		"Switches": {
			"a switch moves with the Secret that it owns", "baremetalswitches.metal3.io", nil, []string{discover, move, hierarchy},
		},
		"Attachments": {
			"a move would fail when it deletes an attachment", "hostnetworkattachments.metal3.io", nil, []string{discover},
		},
		"OtherOfTheGroup": {
			"an unknown kind of BMO", "baremetalracks.metal3.io", nil, nil,
		},
		"SamePlural": {
			"the group counts", "baremetalhosts.example.com", nil, nil,
		},
		"Ours": {
			"the manifests of the provider have the labels", "metal3machines.infrastructure.cluster.x-k8s.io", nil, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pivot.MissingLabels(tc.definition, tc.labels)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestEveryDefinitionIsKnown fails for a new kind of BMO, which requires a decision and the permission to label it.
func TestEveryDefinitionIsKnown(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := components.Source{Root: root, Progress: os.Stderr}.Definitions(t.Context(), components.BaremetalOperator)
	if err != nil {
		t.Fatal(err)
	}
	role, err := os.ReadFile(root + "/config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		if len(pivot.MoveLabels(definition.Name)) == 0 {
			t.Errorf("there is no decision whether %s moves", definition.Name)
		}
		if !strings.Contains(string(role), "- "+definition.Name+"\n") {
			t.Errorf("the manager has no permission to label %s", definition.Name)
		}
	}
}
