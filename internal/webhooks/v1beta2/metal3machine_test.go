package v1beta2_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

// validMachineSpec returns a valid spec of machines and their templates.
func validMachineSpec() infrav1.Metal3MachineSpec {
	return infrav1.Metal3MachineSpec{Image: &infrav1.Image{
		URL:          "https://images.example/ubuntu.qcow2",
		Checksum:     "https://images.example/ubuntu.qcow2.sha256sum",
		ChecksumType: "sha256",
		DiskFormat:   "qcow2",
	}}
}

func validMachine() *infrav1.Metal3Machine {
	return &infrav1.Metal3Machine{ObjectMeta: named("machine"), Spec: validMachineSpec()}
}

func TestMetal3MachineCreate(t *testing.T) {
	const oci = "omit it: an image whose URL begins with oci:// carries its own digest"
	create := func(reason string, change func(*infrav1.Metal3MachineSpec), want ...string) step[*infrav1.Metal3Machine] {
		machine := validMachine()
		change(&machine.Spec)
		return step[*infrav1.Metal3Machine]{reason: reason, after: machine, want: want}
	}
	judge(t, v1beta2.Metal3MachineValidator(), map[string]step[*infrav1.Metal3Machine]{
		"valid": create("an image with a checksum is enough", func(*infrav1.Metal3MachineSpec) {}),
		"no image": create("an image is required",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image = nil }, missingImage),
		"empty image": create("URL and checksum are required",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image = &infrav1.Image{DiskFormat: "raw"} }, missingImage),
		"empty custom deploy": create("a method is required",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image, spec.CustomDeploy = nil, &infrav1.CustomDeploy{}
			}, missingImage),
		"custom deploy": create("a deploy step requires no image",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image, spec.CustomDeploy = nil, &infrav1.CustomDeploy{Method: "install_everything"}
			}),
		"custom deploy with an odd image": create("the step defines the image",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image = &infrav1.Image{URL: "no url"}
				spec.CustomDeploy = &infrav1.CustomDeploy{Method: "install_everything"}
			}),
		"checksum without URL": create("a URL is required",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "" },
			"spec.image.url: Required value: give the URL that the image is fetched from"),
		"not a URL": create("the host cannot download the image",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "no url" }, imageIsUnreadable),
		"file URL": create("an image on the node of Ironic",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "file:///shared/ubuntu.qcow2" }),
		"no checksum": create("a checksum is required",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.Checksum = "" },
			"spec.image.checksum: Required value: give the checksum of the image or the URL of a file that holds it; "+
				"only an image of format live-iso or with a URL that begins with oci:// needs none"),
		"literal checksum": create("a checksum may be literal",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.Checksum = "44d8f7e2" }),
		"checksum at a broken URL": create("an invalid URL",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.Checksum = "https://images.example:port/sum" },
			`spec.image.checksum: Invalid value: "https://images.example:port/sum": is not a URL; `+
				"write it like https://server/path"),
		"live ISO": create("a live ISO requires no checksum",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image = &infrav1.Image{URL: "https://images.example/live.iso", DiskFormat: "live-iso"}
			}),
		"live ISO with an odd checksum": create("an unused checksum is not validated",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image.DiskFormat, spec.Image.Checksum = "live-iso", "https://images.example:port/sum"
			}),
		"OCI": create("the reference has a digest; case does not matter",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image = &infrav1.Image{URL: "OCI://registry.example/ubuntu@sha256:44d8f7e2"}
			}),
		"OCI with checksum": create("two checksums may disagree",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "oci://registry.example/ubuntu" },
			"spec.image.checksum: Forbidden: "+oci, "spec.image.checksumType: Forbidden: "+oci),
		"credentials in a URL": create("no message contains credentials",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.Image.URL = "https://user:secret@images.example:port/ubuntu?X-Signature=secret"
				spec.Image.Checksum = "http://secret@images.example:port"
			},
			`spec.image.url: Invalid value: "https://***@images.example:port/ubuntu?***": is not a URL; `+
				"write it like https://server/path",
			`spec.image.checksum: Invalid value: "http://***@images.example:port": is not a URL; `+
				"write it like https://server/path"),
		"unescaped password": create("the message omits the password",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "https://user:se/cr?et@images.example/ubuntu" },
			`spec.image.url: Invalid value: "https://***@images.example/ubuntu": is not a URL; `+
				"write it like https://server/path"),
		"no scheme": create("the text before an @ may be a password",
			func(spec *infrav1.Metal3MachineSpec) { spec.Image.URL = "sec ret@images.example" },
			`spec.image.url: Invalid value: "***@images.example": is not a URL; write it like https://server/path`),
		"own namespace": create("the own namespace may be named",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.UserData = &corev1.SecretReference{Name: "user", Namespace: namespace}
				spec.MetaData = &corev1.SecretReference{Name: "meta", Namespace: namespace}
				spec.NetworkData = &corev1.SecretReference{Name: "network"}
				spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data", Namespace: namespace}
			}),
		"foreign namespaces": create("a machine must not expose Secrets of another namespace",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.UserData = &corev1.SecretReference{Name: "user", Namespace: "kube-system"}
				spec.MetaData = &corev1.SecretReference{Name: "meta", Namespace: "kube-system"}
				spec.NetworkData = &corev1.SecretReference{Name: "network", Namespace: "kube-system"}
				spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data", Namespace: "kube-system"}
			},
			foreign("spec.userData"), foreign("spec.metaData"), foreign("spec.networkData"), foreign("spec.dataTemplate")),
		"Secrets without names": create("the names are required",
			func(spec *infrav1.Metal3MachineSpec) {
				spec.MetaData = &corev1.SecretReference{}
				spec.NetworkData = &corev1.SecretReference{Namespace: namespace}
			},
			"spec.metaData.name: Required value: name a Secret, or leave out metaData",
			"spec.networkData.name: Required value: name a Secret, or leave out networkData"),
		"user data without name": create("a machine with bootstrap data ignores it",
			func(spec *infrav1.Metal3MachineSpec) { spec.UserData = &corev1.SecretReference{} }),
		"data template without name": create("the name is required",
			func(spec *infrav1.Metal3MachineSpec) { spec.DataTemplate = &infrav1.Metal3ObjectRef{} },
			"spec.dataTemplate.name: Required value: name a Metal3DataTemplate, or leave out dataTemplate"),
		"strict without failure domain": create("the failure domain may come from the Machine",
			func(spec *infrav1.Metal3MachineSpec) { spec.FailureDomainPolicy = infrav1.FailureDomainStrict }),
	})
}

func foreign(path string) string {
	return path + `.namespace: Invalid value: "kube-system": is not the object's own namespace; ` +
		`use "metal3" or leave the field out`
}

// unreadable returns the warning for a selector with one error at a path. It equals the message of the condition of
// the machine.
func unreadable(t *testing.T, path string, selector infrav1.HostSelector) []string {
	t.Helper()
	_, err := host.Selector(selector)
	if err == nil {
		t.Fatalf("%v is understood", selector)
	}
	text, found := strings.CutPrefix(err.Error(), "spec.hostSelector.")
	if !found {
		t.Fatalf("the error does not name the field: %v", err)
	}
	return []string{path + ".hostSelector." + text + "; no host is chosen until this is corrected"}
}

func TestMetal3MachineWarnings(t *testing.T) {
	shape := func(id string) []string {
		return []string{`spec.providerID: "` + id + `" does not have the form metal3://metal3/<host>/<metal3machine>; ` +
			"leave the field to the provider"}
	}
	provider := func(id string) *infrav1.Metal3Machine {
		machine := validMachine()
		machine.Spec.ProviderID = id
		return machine
	}
	selector := func(selector infrav1.HostSelector) *infrav1.Metal3Machine {
		machine := validMachine()
		machine.Spec.HostSelector = selector
		return machine
	}
	sounds := infrav1.HostSelector{MatchExpressions: []infrav1.HostSelectorRequirement{
		{Key: "rack", Operator: "Sounds", Values: []string{"good"}},
	}}
	unknown := unreadable(t, "spec", sounds)
	judge(t, v1beta2.Metal3MachineValidator(), map[string]step[*infrav1.Metal3Machine]{
		"provider ID": {
			reason: "the format of this provider",
			after:  provider("metal3://metal3/host-0/machine"),
		},
		"provider ID with a UID": {
			reason: "old objects have other formats",
			after:  provider("metal3://44d8f7e2"), warnings: shape("metal3://44d8f7e2"),
		},
		"provider ID of another scheme": {
			reason: "the scheme counts",
			after:  provider("other://metal3/host-0/machine"), warnings: shape("other://metal3/host-0/machine"),
		},
		"provider ID of another namespace": {
			reason: "hosts and machines share a namespace",
			after:  provider("metal3://other/host-0/machine"), warnings: shape("metal3://other/host-0/machine"),
		},
		"provider ID with an empty part": {
			reason: "all parts are required",
			after:  provider("metal3://metal3//machine"), warnings: shape("metal3://metal3//machine"),
		},
		"selector": {
			reason: "the case of operators does not matter",
			after: selector(infrav1.HostSelector{
				MatchLabels: map[string]string{"rack": "a"},
				MatchExpressions: []infrav1.HostSelectorRequirement{
					{Key: "rack", Operator: "in", Values: []string{"a", "b"}}, {Key: "broken", Operator: "DoesNotExist"},
				},
			}),
		},
		"selector with an unknown operator": {
			reason: "the selector is legal and never matches",
			after:  selector(sounds), warnings: unknown,
		},
		"selector changed to nonsense": {
			reason: "an update warns as a creation does",
			before: validMachine(), after: selector(sounds), warnings: unknown,
		},
		"selector that stays nonsense": {
			reason: "an unchanged selector causes no warning",
			before: selector(sounds), after: selector(sounds),
		},
	})
}

func TestMetal3MachineUpdate(t *testing.T) {
	provider := func(id string) *infrav1.Metal3Machine {
		machine := validMachine()
		machine.Spec.ProviderID = id
		return machine
	}
	provisioned := func(id string) *infrav1.Metal3Machine {
		machine := provider(id)
		machine.Status.Initialization.Provisioned = ptr.To(true)
		return machine
	}
	inPlace := provisioned("metal3://metal3/host-0/machine")
	inPlace.Spec.Image.URL = "https://images.example/debian.qcow2"
	inPlace.Spec.HostSelector.MatchLabels = map[string]string{"rack": "a"}
	inPlace.Spec.DataTemplate = &infrav1.Metal3ObjectRef{Name: "data"}
	judge(t, v1beta2.Metal3MachineValidator(), map[string]step[*infrav1.Metal3Machine]{
		"set": {
			reason: "the provider sets the ID",
			before: validMachine(), after: provider("metal3://metal3/host-0/machine"),
		},
		"changed": {
			reason: "a Node has the old ID",
			before: provisioned("metal3://metal3/host-0/machine"), after: provisioned("metal3://metal3/host-1/machine"),
			want: []string{changeOfProvider},
		},
		"removed": {
			reason: "the machine is provisioned",
			before: provisioned("metal3://metal3/host-0/machine"), after: provisioned(""),
			want: []string{`spec.providerID: Invalid value: "": is "metal3://metal3/host-0/machine" and does not ` +
				"change; restore it: the Node of the machine carries it"},
		},
		"changed before it is provisioned": {
			reason: "no Node has the ID",
			before: provider("metal3://metal3/host-0/machine"), after: provider("metal3://metal3/host-1/machine"),
		},
		"removed before it is provisioned": {
			reason: "a user removes a wrong value, and the provider sets it",
			before: provider("metal3://metal3/host-0/machine"), after: provider(""),
		},
		"changed while the status is written": {
			reason: "only the stored status counts",
			before: provisioned("metal3://metal3/host-0/machine"), after: provider("metal3://metal3/host-1/machine"),
			want: []string{changeOfProvider},
		},
		"all else": {
			reason: "machines may be updated in place",
			before: provisioned("metal3://metal3/host-0/machine"), after: inPlace,
		},
	})
}

// TestMetal3MachineValidatesItsSpec changes all but the spec. The API server calls the webhook only for changes of
// the spec.
func TestMetal3MachineValidatesItsSpec(t *testing.T) {
	for seed := range int64(rounds) {
		fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(plausible)
		before, after := &infrav1.Metal3Machine{}, &infrav1.Metal3Machine{}
		fill.Fill(before)
		fill.Fill(after)
		before.DeletionTimestamp, after.DeletionTimestamp = nil, nil
		// Namespace and name never change.
		after.Namespace, after.Name = before.Namespace, before.Name
		after.Spec = *before.Spec.DeepCopy()
		warnings, err := v1beta2.Metal3MachineValidator().ValidateUpdate(t.Context(), before, after)
		if err != nil || len(warnings) > 0 {
			t.Errorf("seed %d: warnings %q, error %v, although the spec stayed", seed, warnings, err)
		}
	}
}
